"""Tables of a Spark cluster, and errors of Spark in one line that holds no value of a row."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from subprocess import DEVNULL
from threading import Lock, Thread
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa

from heterofedsyn.errors import DataError, HeterofedsynError, UsageError
from heterofedsyn.sources._rowwise import check_text
from heterofedsyn.sources._spark_plan import check_plan
from heterofedsyn.sources.location import Location
from heterofedsyn.sources.source import Source, check_names

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

_T = TypeVar("_T")

_PULSE = 0.2
_PATIENCE = 2.0
"""Seconds that Spark has to give up its jobs before we go on without it."""

_STARTING = Lock()

_CONFIGURED = ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS")
_TALKATIVE = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of pyspark that write an error, with the values it quotes, before it is raised."""

_QUIET = {
    "spark.app.name": "heterofedsyn",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",  # it would quote rows; what fails is raised anyway
}
_ALONE = {
    **_QUIET,
    "spark.master": "local[*]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.authenticate": "true",  # other users of this machine can reach its ports
    "spark.io.encryption.enabled": "true",  # a process that is killed leaves its files behind
}
_CONNECT = "sc://"
_OURS = re.compile(r"heterofedsyn\.errors\.\w+: (.+)")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_KNOWN = {
    r"JAVA_GATEWAY_EXITED": "Java did not start; install Java 17 or newer, or set JAVA_HOME",
    r"No module named 'heterofedsyn": (
        "its workers do not have this package; install it, with its extra `spark`, in the "
        "cluster's Python environment"
    ),
    r"No module named '(?:pyarrow|numpy|numba|pandas)": (
        "its workers lack a library; install this package, with its extra `spark`, in the "
        "cluster's Python environment"
    ),
    r"PYTHON_VERSION_MISMATCH": (
        "its workers run another Python; set PYSPARK_PYTHON to one of this version"
    ),
    r"TABLE_OR_VIEW_NOT_FOUND|(?:SCHEMA|CATALOG)_NOT_FOUND|SINGLE_PART_NAMESPACE": (
        "there is no such table; check its name, with catalog and schema"
    ),
    r"UNRESOLVED_COLUMN": "the query names a column that is not there; check its spelling",
    r"PARSE_SYNTAX_ERROR|PARSE_EMPTY_STATEMENT": "not a table or a query; check its spelling",
    r"PATH_NOT_FOUND|FILE_NOT_EXIST|FileNotFoundException": (
        "a file of the table is gone; refresh the table"
    ),
    r"No space left on device": "a disk is full; make room, or set spark.local.dir",
    r"OutOfMemoryError|maxResultSize|out of memory": (
        "a worker ran out of memory; give it more, or cut the table into more partitions"
    ),
    r"Permission denied|AccessControl|INSUFFICIENT_PERMISSIONS": (
        "reading it is not permitted; ask for access"
    ),
    r"Connection refused|UNAVAILABLE|SparkContext (?:was|has been) (?:shut|stopped)": (
        "the cluster does not answer; check that it runs"
    ),
}
_DAMAGED = re.compile(
    r"FAILED_TO_CREATE_PLAN_FOR_DIRECT_QUERY|CANNOT_READ_FILE_FOOTER|FAILED_READ_FILE\.NO_HINT"
)
_DAMAGED_FILE = re.compile(
    r"(?:An error occurred while calling \S+\n: org\.apache\.spark\.SparkException: )?"
    r"\[FAILED_READ_FILE\.NO_HINT\] Encountered error while reading file (\S+)\.\s+SQLSTATE"
)
"""The address of a file, where a message begins with it; further on it could be a row's words."""


@dataclass(frozen=True, eq=False)
class SparkSource(Source):
    """A table or query of Spark. Counting runs where its rows are; `batches` brings them here."""

    label: str
    frame: DataFrame

    @classmethod
    def open(cls, location: Location) -> SparkSource:
        """A table by its name, or a query.

        Raises:
            DataError: there is no such table, rows of the query depend on others, or Spark
                cannot start.
            UsageError: pyspark is not installed.
        """
        check_text(location.name, location.query, spark=True)
        with one_line(location.name):
            query = location.query
            # With a query, the place is that of a cluster, or nothing.
            running = session(location.place if query else "")

            def plan() -> SparkSource:
                frame = running.sql(_select(query)) if query else running.table(location.place)
                return cls._checked(location.name, frame)

            return Jobs(running).run(plan)

    @classmethod
    def of(cls, frame: object) -> SparkSource:
        """A data frame of Spark."""
        from pyspark.sql import DataFrame

        if not isinstance(frame, DataFrame):
            raise UsageError("this is pandas on Spark; pass its Spark data frame: .to_spark()")
        with one_line("pyspark DataFrame"):
            return Jobs(frame.sparkSession).run(partial(cls._checked, "pyspark DataFrame", frame))

    @classmethod
    def _checked(cls, name: str, frame: DataFrame) -> SparkSource:
        check_plan(name, frame)
        check_names(name, frame.columns)
        return cls(name, frame)

    @property
    def name(self) -> str:
        """The name of the table; not the text of a query."""
        return self.label

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.frame.columns)

    def select(self, columns: Collection[str]) -> DataFrame:
        """Some columns, named by their places: Spark does not tell "age" from "Age"."""
        numbers = {column: f"_{place}" for place, column in enumerate(self.columns)}
        numbered = self.frame.toDF(*numbers.values())
        return numbered.select(*(numbers[column] for column in columns))

    def _batches(self, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        with one_line(self.name):
            packed = self.select(columns).mapInArrow(_packed, "batch binary")
            for row in Jobs(self.frame.sparkSession).each(packed.toLocalIterator):
                with pa.ipc.open_stream(row.batch) as stream:
                    for batch in stream:
                        yield batch.rename_columns(list(columns))


def session(place: str = "") -> SparkSession:
    """The session of this process; a new one if there is none.

    A new one without a place is that of the cluster which SPARK_HOME, SPARK_CONF_DIR, SPARK_REMOTE
    or PYSPARK_SUBMIT_ARGS speak of. Without any of them Spark runs on this machine alone.

    Args:
        place: the address of a standalone cluster's master (`spark://host:7077`), or of a server
            of Spark Connect (`sc://host:15002`).

    Raises:
        UsageError: pyspark is not installed, or the session of this process is of another place.
    """
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError(
            "this needs the extra `spark`: pip install 'heterofedsyn[spark]'"
        ) from None

    _silence()
    with suppress(PySparkRuntimeError):
        return _of_place(SparkSession.active(), place)
    # Made in the main thread, it would put its own handler in the place of ours for Ctrl-C.
    return _of_place(_aside(partial(_started, place)), place)


def _of_place(running: SparkSession, place: str) -> SparkSession:
    """A session, if it is that of a place; any is, if none is named."""
    context = context_of(running)
    if not place:
        return running
    if context is None:
        there = f"{_CONNECT}{getattr(running.client._builder, 'endpoint', '')}"
        same = place.partition("/;")[0].rstrip("/") == there
    else:
        same = place == context.master
    if not same:
        raise UsageError(
            "this process has a session of Spark in another place, and there can be one only; name "
            "one place, or start another process"
        )
    return running


def _started(place: str) -> SparkSession:
    """A session, made now unless another thread has made one meanwhile."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    with _STARTING:
        with suppress(PySparkRuntimeError):
            return SparkSession.active()
        builder: SparkSession.Builder = SparkSession.builder
        if place.startswith(_CONNECT):
            return builder.remote(place).getOrCreate()
        configured = any(os.environ.get(name) for name in _CONFIGURED)
        if SparkContext._active_spark_context is None:
            if place:
                _start({**_QUIET, "spark.master": place})
            elif not configured:
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
                os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
                _start(_ALONE)
        return builder.getOrCreate()


def _start(settings: Mapping[str, str]) -> None:
    """Starts Spark where it prints nothing and leaves nothing behind."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    tables = tempfile.mkdtemp(prefix="heterofedsyn-spark-")
    atexit.register(shutil.rmtree, tables, ignore_errors=True)
    conf = SparkConf().setAll([*settings.items(), ("spark.sql.warehouse.dir", tables)])
    if SparkContext._gateway is None:
        gateway = launch_gateway(conf, {"stdout": DEVNULL, "stderr": DEVNULL})  # type: ignore[no-untyped-call]
    else:
        gateway = SparkContext._gateway  # that of a session which has ended
    SparkContext(conf=conf, gateway=gateway)


def context_of(session: SparkSession) -> SparkContext | None:
    """The context of a session; one of Spark Connect has none."""
    from pyspark.errors import PySparkAttributeError

    with suppress(PySparkAttributeError):
        return session.sparkContext
    return None


class Jobs:
    """Actions of Spark, each in a thread: a signal is heard meanwhile, and ends their jobs."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        # The tags of a session itself are of no use from another thread, but for Spark Connect.
        context = context_of(session)
        mark = context.addJobTag if context else session.addTag
        cancel = context.cancelJobsWithTag if context else session.interruptTag
        tag = f"heterofedsyn-{uuid4().hex}"
        self._mark = partial(mark, tag)
        self._cancel = partial(cancel, tag)

    def run(self, action: Callable[[], _T], pulse: Callable[[], None] = lambda: None) -> _T:
        """What an action gives.

        Args:
            pulse: called a few times a second meanwhile.
        """
        from pyspark import inheritable_thread_target

        def marked() -> _T:
            self._mark()
            return action()

        work: Callable[[], _T] = inheritable_thread_target(self._session)(marked)
        return _aside(work, self._cancel, pulse)

    def each(self, action: Callable[[], Iterator[_T]]) -> Iterator[_T]:
        """The things that an action gives one by one, none of them `None`."""
        things = self.run(action)
        # The jobs that bring the next thing are started, and marked, by the action's own thread.
        while (thing := _aside(partial(next, things, None), self._cancel)) is not None:
            yield thing


def _aside(
    action: Callable[[], _T],
    stop: Callable[[], object] | None = None,
    pulse: Callable[[], None] = lambda: None,
) -> _T:
    """What an action gives that runs in a thread, so that this one hears signals."""
    done: Future[_T] = Future()

    def work() -> None:
        try:
            done.set_result(action())
        except BaseException as error:
            done.set_exception(error)

    # Not waited for at the end of the process: Spark ends with it, whatever it does.
    Thread(target=work, daemon=True).start()
    try:
        while not wait([done], _PULSE).done:
            pulse()
    except BaseException:
        if stop is not None:
            Thread(target=_stop, args=(done, stop), daemon=True).start()
            wait([done], _PATIENCE)
        raise
    return done.result()


def _stop(done: Future[_T], stop: Callable[[], object]) -> None:
    """Makes an action stop, however often that must be said: it may be between two jobs."""
    while not done.done():
        with suppress(Exception):
            stop()
        wait([done], _PULSE)


@contextmanager
def one_line(name: str) -> Iterator[None]:
    """Turns an error of Spark, which may quote rows, into a line that does not."""
    _silence()
    try:
        yield
    except HeterofedsynError:
        raise
    except Exception as error:
        raise DataError(f"{name}: {_explain(error)}") from None


def _silence() -> None:
    """Keeps pyspark from writing rows, or its thoughts on versions of pandas, to stderr."""
    warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
    with suppress(ImportError):  # whoever needs pyspark hears of it elsewhere
        from pyspark.logger import PySparkLogger

        for name in _TALKATIVE:
            PySparkLogger.getLogger(name).disabled = True


def _select(query: str) -> str:
    """A query as a part of another: Spark runs a statement that writes as soon as it sees it."""
    return f"SELECT * FROM (\n{query}\n)"


def _explain(error: Exception) -> str:
    message = str(error)
    if ours := _OURS.search(message):
        return ours.group(1).strip()
    for pattern, explained in _KNOWN.items():
        if re.search(pattern, message):
            return explained
    if _DAMAGED.search(message):
        file = _DAMAGED_FILE.match(message)
        # Its name alone: folders may be named after the values of a column.
        what = repr(unquote(file.group(1).rpartition("/")[2])) if file else "a file"
        return f"{what} is damaged or cut short; make it again"
    # The name of a condition is Spark's own word; the rest of a message may hold values.
    condition = _CONDITION.search(message)
    said = condition.group(1) if condition else type(error).__name__
    return f"Spark could not read it to its end ({said}); run the query in Spark to see why"


def _packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs on workers: each batch as one value, which Spark carries without looking inside."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.record_batch({"batch": pa.array([sink.getvalue().to_pybytes()], pa.binary())})
