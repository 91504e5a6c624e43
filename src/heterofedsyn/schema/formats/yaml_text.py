"""YAML, read by PyYAML and more strictly: what could surprise is refused with its line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heterofedsyn.errors import SchemaError, UsageError

MOST_LEVELS = 100  # of lists and mappings within each other


def from_yaml(text: str) -> Any:
    """What a text says; values that stand for others, and keys given twice, are refused.

    Raises:
        SchemaError: it is no YAML, or none that means the same to every reader.
        UsageError: PyYAML is not installed.
    """
    yaml = _pyyaml()
    try:
        level = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            line = event.start_mark.line + 1
            if isinstance(event, yaml.AliasEvent):
                raise SchemaError(f"line {line}: a value stands for another; write it out")
            level += isinstance(event, yaml.CollectionStartEvent)
            level -= isinstance(event, yaml.CollectionEndEvent)
            if level > MOST_LEVELS:
                raise SchemaError(f"line {line}: not read: it is nested too deeply")
        _check_keys(yaml, yaml.compose(text, Loader=yaml.SafeLoader))
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        where = f"line {at.line + 1}: " if at else ""
        raise SchemaError(f"{where}not YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError):
        raise SchemaError("not YAML: it holds what is no text, no date or no number") from None


def to_yaml(values: Mapping[str, Any]) -> str:
    """The same as text, in the order given; letters that PyYAML would lose are escaped."""
    yaml = _pyyaml()
    text = str(yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True))
    if yaml.safe_load(text) == values:
        return text
    return str(yaml.safe_dump(dict(values), sort_keys=False))


def _check_keys(yaml: Any, node: Any) -> None:
    if isinstance(node, yaml.MappingNode):
        known: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value in known:
                line = key.start_mark.line + 1
                raise SchemaError(f"line {line}: a key is given twice, or is no word; rename it")
            known.add(key.value)
            _check_keys(yaml, value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_keys(yaml, item)


def _pyyaml() -> Any:
    try:
        import yaml
    except ImportError:
        raise UsageError(
            "YAML needs the extra `formats`: pip install 'heterofedsyn[formats]'"
        ) from None
    return yaml
