"""What controller and executor make of messages, without a network."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

pytest.importorskip("nvflare")

from hypothesis import given
from hypothesis import strategies as st
from nvflare.apis.fl_constant import FLContextKey, ReservedKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.apis.workspace import Workspace
from nvflare.fuel.utils.config_service import ConfigService
from nvflare.private.fed.server.server_json_config import ServerJsonConfigurator

from heterofedsyn.engines.nvflare.asking import heard_of
from heterofedsyn.engines.nvflare.controller import StudyController
from heterofedsyn.engines.nvflare.executor import AgentExecutor
from heterofedsyn.engines.nvflare.job import write_job
from heterofedsyn.engines.relay import SOCKET
from heterofedsyn.engines.session import read_progress
from heterofedsyn.engines.task import (
    ANSWER,
    PROGRESS_FILE,
    QUERY,
    REASON,
    RESULT,
    SECONDS,
    STUDY_FILE,
    TASK,
    pack,
    unpack,
)
from heterofedsyn.errors import UsageError
from heterofedsyn.hub import Absence, Request
from heterofedsyn.hub.replies import Reply
from heterofedsyn.protocol import Answer, encode
from heterofedsyn.protocol.refusal import Reason
from heterofedsyn.schema import CategoricalColumn, Schema
from heterofedsyn.simulate import FederatedSynthesizer
from quorum_support import SITES, asked, study_of
from site_support import make_study

pytestmark = pytest.mark.thorough

REQUEST = asked(study_of("allmarg", quorum=2)[0])


def reply(**fields: Any) -> Shareable:
    found = make_reply(ReturnCode.OK)
    found.update(fields)
    return found


def read_reply(request: Request, site: str, result: Shareable, *, simulated: bool = False) -> Reply:
    return heard_of(result).read(request, site, simulated=simulated)


def good() -> Answer:
    study, sites = study_of("allmarg", quorum=2)
    (answer,) = sites.carry(asked(study), SITES[:1])
    assert isinstance(answer, Answer)
    return msgspec.structs.replace(answer, simulated=False)


def test_nvflare_answer_with_the_noise_of_a_simulation_does_not_count() -> None:
    answer = msgspec.structs.replace(good(), simulated=True)
    sent = reply(**{ANSWER: encode(answer)})
    assert read_reply(REQUEST, "one", sent) == Absence("one", "used the noise of a simulation")
    assert read_reply(REQUEST, "one", sent, simulated=True) == answer
    assert not StudyController.takes_simulated


@pytest.mark.quick
def test_nvflare_answer_is_taken_from_the_site_that_sent_it() -> None:
    answer = good()
    assert read_reply(REQUEST, "one", reply(**{ANSWER: encode(answer)})) == answer
    other: Reply = read_reply(REQUEST, "two", reply(**{ANSWER: encode(answer)}))
    assert other == Absence("two", "answered for another site")


@pytest.mark.parametrize("reason", list(Reason))
def test_nvflare_refusal_has_one_of_four_reasons(reason: Reason) -> None:
    found = read_reply(REQUEST, "one", reply(**{REASON: reason.value}))
    assert found == Absence("one", f"refused ({reason})")


@pytest.mark.parametrize("reason", ["age 93 is unknown", "", 7, ["over the cap"], b"malformed"])
def test_nvflare_words_of_a_site_never_reach_the_release(reason: object) -> None:
    assert read_reply(REQUEST, "one", reply(**{REASON: reason})) == Absence(
        "one", "refused (unavailable)"
    )


@pytest.mark.parametrize("answer", [b"", b"\xff" * 40, "text", None, 3, encode(good())[:-1]])
def test_nvflare_garbage_is_no_answer(answer: object) -> None:
    found = read_reply(REQUEST, "one", reply(**{ANSWER: answer}))
    assert found == Absence("one", "sent something else than an answer")


@pytest.mark.quick
def test_nvflare_failed_task_is_a_site_that_is_unavailable() -> None:
    found = make_reply(ReturnCode.EXECUTION_EXCEPTION)
    found[ANSWER] = encode(good())
    assert read_reply(REQUEST, "one", found) == Absence("one", "refused (unavailable)")


@pytest.mark.parametrize(
    ("task", "fields", "reason"),
    [
        (TASK, {QUERY: b"query", SECONDS: 1.0}, Reason.UNAVAILABLE),
        (TASK, {QUERY: "query", SECONDS: 1.0}, Reason.MALFORMED),
        (TASK, {QUERY: b"query"}, Reason.MALFORMED),
        (TASK, {}, Reason.MALFORMED),
    ],
)
def test_nvflare_executor_needs_a_query_and_the_socket_of_its_own_unit(
    monkeypatch: pytest.MonkeyPatch, task: str, fields: dict[str, Any], reason: Reason
) -> None:
    monkeypatch.delenv(SOCKET, raising=False)
    found = AgentExecutor().execute(task, reply(**fields), FLContext(), Signal())
    assert (found[REASON], found.get(ANSWER)) == (reason.value, None)


def test_nvflare_executor_does_nothing_but_answer_queries() -> None:
    found = AgentExecutor().execute("train", Shareable(), FLContext(), Signal())
    assert found.get_return_code() == ReturnCode.TASK_UNKNOWN


def test_nvflare_job_can_give_the_executor_no_settings() -> None:
    with pytest.raises(TypeError):
        AgentExecutor(socket="elsewhere")


# THE STUDY'S TEXT

MEANT = ("{$HUB_SECRET}", "{{a}}", "{x}", "{JOB_ID}", "{workflows}", "{", "${HOME}", "@me", "# no")
"""What NVFlare's configuration, or a shell, takes for more than letters; one of them at a time,
since a text that it cannot make sense of is left as it is."""


def as_nvflare_reads(job: Path, root: Path) -> StudyController:
    """The controller that a server builds from a job: by NVFlare's own reader."""
    app = job / "server"
    (root / "startup").mkdir(parents=True)
    (root / "local").mkdir()
    place = Workspace(str(root), site_name="server")
    args = argparse.Namespace(job_id="job", workspace=str(root), set=None)
    ConfigService.initialize(section_files={}, config_path=[str(app)], parsed_args=args)
    reader = ServerJsonConfigurator(
        workspace_obj=place,
        config_file_name=str(app / "config" / "config_fed_server.json"),
        args=args,
        app_root=str(app),
    )
    reader.configure()
    (workflow,) = reader.runner_config.workflows
    found = workflow.controller
    assert isinstance(found, StudyController)
    return found


@pytest.mark.parametrize("word", MEANT)
def test_no_letter_of_a_study_means_anything_to_nvflare(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_SECRET", "a password of the server")
    schema = Schema((CategoricalColumn("c", (word, "other")), CategoricalColumn(word, ("v", "w"))))
    study = make_study(schema, unit=f"id {word}", rows_per_unit=1)
    controller = as_nvflare_reads(
        write_job(study, tmp_path / "job", resume=True), tmp_path / "root"
    )
    context = FLContext()
    place = Workspace(str(tmp_path / "root"), site_name="server")
    context.set_prop(FLContextKey.WORKSPACE_OBJECT, place)
    context.set_prop(ReservedKey.RUN_NUM, "job")
    run = Path(place.get_run_dir("job"))
    run.mkdir(parents=True)
    controller.control_flow(Signal(), context)
    assert (run / RESULT / STUDY_FILE).read_text("utf-8") == study.to_toml()
    progress = read_progress(run / RESULT / PROGRESS_FILE)
    assert progress.study == study.fingerprint
    assert "no rounds to resume" in progress.message  # so that this test asks no site


@pytest.mark.parametrize("safe", [False, True])
def test_the_server_writes_a_safe_csv_when_the_coordinator_asks(safe: bool, tmp_path: Path) -> None:
    schema = Schema((CategoricalColumn("c", ("=1+1", "other")),))
    job = write_job(make_study(schema), tmp_path / "job", rows=50, safe_csv=safe)
    synthesizer = FederatedSynthesizer(
        schema, epsilon=5.0, delta=1e-9, noise_seed=1, method="independent"
    )
    rows = pa.table({"c": ["=1+1", "other"] * 100})
    release = synthesizer.fit([rows, rows.slice(0)]).release
    as_nvflare_reads(job, tmp_path / "root").order.save(release, tmp_path / "hub")
    written = (tmp_path / "hub" / "synthetic.csv").read_text("utf-8")
    assert ("'=1+1" in written, '"=1+1' in written) == (safe, not safe)


@given(st.text(min_size=1))
def test_packed_text_is_inert_and_comes_back(text: str) -> None:
    packed = pack(text)
    assert not {*packed} & {*"{}$@#\\'\" \n"}
    assert unpack(packed) == text


@pytest.mark.parametrize("packed", ["", "plan = 1", "YQ", "YR==", "YQ==\n", "/w==", "\u00e9"])
def test_what_was_not_packed_is_refused_in_one_line(packed: str) -> None:
    with pytest.raises(UsageError, match="holds no study"):
        unpack(packed)
