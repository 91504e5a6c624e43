"""An entry for the OpenDP deployments registry: all that `privacy.json` knows, as its YAML.

What only a person knows stands as `TODO`, so that a search for that word finds all of it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from heterofedsyn.errors import PrivacyRefusal
from heterofedsyn.exports.description import column_facts, limits, origin, unit_of_privacy, word
from heterofedsyn.exports.quoting import TODO, Todo, code, prose, todos, yaml_lines
from heterofedsyn.hub.release import Release
from heterofedsyn.hub.release.statement import PrivacyStatement


def deployments_registry(release: Release) -> str:
    """The entry, of tier 2.

    Raises:
        PrivacyRefusal: the noise is simulated, so that there is no guarantee to register.
    """
    if release.privacy.simulated_noise:
        raise PrivacyRefusal(
            "its noise came from a seed, so there is no guarantee to register; make a release "
            "without --seed"
        )
    head = [
        "# An entry for https://github.com/opendp/deployments-registry-data, made from a release",
        f"# of heterofedsyn. Write what is marked {TODO}, and read the rest before you submit it.",
    ]
    return "\n".join([*head, *yaml_lines(_entry(release))]) + "\n"


def to_be_written(release: Release) -> list[str]:
    """What the entry still lacks."""
    return [f"{todos(_entry(release))} lines are marked {TODO}: write these by hand"]


def _entry(release: Release) -> dict[str, Any]:
    said = release.run.said_about
    return {
        "url_slug": Todo("name-of-the-table-organisation-year"),
        "status": "Draft",
        "tier": 2,
        "deployment": {
            "basic": {
                "name": prose(said.title) if said.title else Todo("what people call the table"),
                "data_curators": [Todo("who publishes it")],
                "intended_use": prose(said.purpose)
                if said.purpose
                else Todo("what the table is for"),
                "data_product_type": "Synthetic data",
                "data_product_region": Todo("which region the records are from"),
                "description": origin(release, code),
                "publication_date": Todo("the day of publication", value="1900-01-01"),
                "data_product_sector": Todo(
                    "Technology, Healthcare, Education, Government, Energy or Finance",
                    optional=True,
                ),
            },
            "dp_variant": {
                "variant_name": "Zero-concentrated DP",
                "data_domain": _domain(release),
                "unprotected_quantities": (
                    "None that is computed from records: numbers of records, dropped records and "
                    "times are not published. Public beforehand, and not protected: the schema, "
                    "the names of the sites, the budget, the method and its settings."
                ),
            },
            "privacy_loss": _loss(release),
            "deployment_model": _model(release),
            "accounting": {
                "post_processing": (
                    "Noisy counts are made consistent and never negative, a model is fitted, rows "
                    "are drawn and mended where they break a rule of the schema."
                ),
                "composition": (
                    "Prices in rho add up, also where a later question is chosen from earlier "
                    "answers; every site refuses what would exceed the rho of the study. "
                    "privacy.json lists each release with its sensitivity, sigma and price."
                ),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": Todo(
                    "whether schema or settings were chosen by looking at the records, which the "
                    "guarantee does not cover.",
                    said="Records become codes of a public schema, row by row; those that do not "
                    "fit are left out.",
                ),
                "mechanisms": _mechanisms(release),
                "justification": Todo("why this epsilon and delta, and who agreed to them"),
            },
            "administrative": {
                "sources": Todo("where the release and its report are published"),
                "notes": tuple(limits(release, code)),
                "registry_authors": [Todo("who wrote this entry")],
            },
        },
    }


def _domain(release: Release) -> tuple[str, ...]:
    lines = ["Tables with any number of records and these columns:"]
    lines += [f"- {code(f.name)}: {f.kind}, {f.allowed(code)}" for f in column_facts(release)]
    return tuple(lines)


def _loss(release: Release) -> dict[str, Any]:
    privacy = release.privacy
    people = privacy.unit_column is not None
    most = f"; at most {privacy.rows_per_unit:,} rows of a person count" if people else ""
    whom = unit_of_privacy(release, code)
    return {
        "privacy_unit": f"One {whom}" if release.run.pooled else f"One {whom} at one site",
        "privacy_unit_details": (
            f"Tables are adjacent if one {whom} is added or removed{most}."
            if release.run.pooled
            else f"Tables of one site are adjacent if one {whom} is added or removed{most}; the "
            "tables of the other sites are arbitrary and stay as they are."
        ),
        "privacy_parameters": {
            "epsilon": privacy.epsilon,
            "delta": privacy.delta,
            "rho": privacy.rho,
        },
        "privacy_parameters_details": (
            "The release is rho-zCDP. Epsilon at delta follows from rho by the conversion "
            f"{word(privacy.conversion, code)}."
        ),
    }


def _model(release: Release) -> dict[str, Any]:
    central = len(release.privacy.sites) == 1
    return {
        "model_name": "Central" if central else "Federated",
        "model_name_details": _details(release.privacy, central),
        "actors": Todo("who runs the sites and the hub, and who may see what they exchange"),
        "release_type": Todo("or Many releases", value="One release"),
        "release_type_details": Todo("whether the same records will be used again"),
        "data_source_type": Todo("or Dynamic", value="Static"),
        "access_type": "Non-interactive",
    }


def _details(privacy: PrivacyStatement, central: bool) -> str | Todo:
    if central:
        return "One party holds all records and adds the noise."
    ran = "keep this if sites were separate organisations, not a simulation in one place."
    colluding, quorum = privacy.colluding, privacy.quorum
    if isinstance(colluding, msgspec.UnsetType) or isinstance(quorum, msgspec.UnsetType):
        said = (
            f"{len(privacy.sites):,} sites keep their records and add noise to every answer "
            "themselves, so that the guarantee holds against everyone who sees all answers."
        )
    else:
        said = (
            f"{len(privacy.sites):,} sites keep their records and add noise; the hub sees sums "
            f"over at least {quorum:,} sites only. The guarantee holds if at most {colluding:,} of "
            f"them collude; beyond that it is rho {privacy.rho_alone:.4g}."
        )
    return Todo(ran, said=said)


def _mechanisms(release: Release) -> tuple[str | Todo, ...]:
    return (
        "- Discrete Gaussian noise on vectors of integers, drawn by OpenDP from the operating "
        "system's randomness.",
        "- Floating point: none between counts and noisy counts; integers all the way.",
        "- Timing: work at a site follows the schema and declared sizes, and replies leave on "
        "ticks; OpenDP's sampler itself is not hardened against timing.",
        "- Platform: nothing is done against leaks of the machine (caches, memory, power).",
        Todo(
            "how whoever holds the records protects them.",
            said="- Access: records are read by a program where they are held;",
        ),
        f"- Version: heterofedsyn {word(release.run.version, code)}.",
    )
