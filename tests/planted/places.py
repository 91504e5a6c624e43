"""Where bugs are planted: every object of the package that a bug touches is imported here, once."""

# ruff: noqa: F401  (bugs use them from here)
# mypy: implicit-reexport

from __future__ import annotations

from heterofedsyn._arrays import Exact
from heterofedsyn.errors import HeterofedsynError, NotApproved, ProtocolError
from heterofedsyn.hub import replies
from heterofedsyn.hub.methods.localmerge import LocalMerge
from heterofedsyn.hub.release import statement
from heterofedsyn.marginals import counting, counts, tally
from heterofedsyn.marginals.counts import Counts, clique_of
from heterofedsyn.marginals.sketch import Sketch, SketchKind
from heterofedsyn.marginals.statistics import Grouped
from heterofedsyn.masking import sealing, shamir, streams, words
from heterofedsyn.masking.identity import is_signed
from heterofedsyn.privacy import budget, noise
from heterofedsyn.privacy._noise_kernel import discrete_gaussian
from heterofedsyn.privacy.budget import Budget, sigma_for, together
from heterofedsyn.privacy.ledger import Ledger
from heterofedsyn.privacy.noise import NoiseSource, SecureNoise, SimulatedNoise, add_noise
from heterofedsyn.privacy.terms import Noised, NoisyIntegers, Terms
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol import plan
from heterofedsyn.protocol.about import About
from heterofedsyn.protocol.aggregation import Opened, bound_to, hash_of
from heterofedsyn.protocol.codec import decode
from heterofedsyn.protocol.limits import check_together
from heterofedsyn.protocol.messages import Answer, Query, Released, encode, query_fingerprint
from heterofedsyn.protocol.refusal import Reason, Refused, words_of
from heterofedsyn.protocol.terms import guaranteed, of_the_sum, terms_at, terms_of
from heterofedsyn.schema import _parsing as parsing
from heterofedsyn.schema import _units as units
from heterofedsyn.schema import rulebook
from heterofedsyn.schema._bins import RealBins
from heterofedsyn.schema._units import People
from heterofedsyn.schema.binned import BinnedColumn, NumberColumn
from heterofedsyn.schema.rulebook import Rulebook
from heterofedsyn.schema.table import Encoder
from heterofedsyn.simulate import persons
from heterofedsyn.simulate.run import run_study
from heterofedsyn.simulate.site_column import SiteColumn
from heterofedsyn.simulate.split import split
from heterofedsyn.simulate.synthesizer import FederatedSynthesizer
from heterofedsyn.site import _spark_tasks as spark_tasks
from heterofedsyn.site import (
    consent,
    member,
    receipt,
    roster,
    selfcheck,
    server,
    spark_counting,
)
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.answering import Desk, Price, Site, Store
from heterofedsyn.site.ledger import agreement, durable, private, repair, retiring
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.entries import Charged, Repaired
from heterofedsyn.site.ledger.index import Index
from heterofedsyn.site.member import Member
from heterofedsyn.site.server import Service
from heterofedsyn.site.settings import SiteSettings
from heterofedsyn.site.shelf import Shelf
from heterofedsyn.site.signing import Identity
from heterofedsyn.sources import _rowwise as rowwise
from heterofedsyn.sources import apart, csv_file, memory
from heterofedsyn.sources._cells import texts
from heterofedsyn.sources.csv_file import CsvSource
from heterofedsyn.synthesis.targets import Targets
