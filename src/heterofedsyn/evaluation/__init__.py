"""How close a synthetic table is to a real one."""

from heterofedsyn.evaluation.tvd import TotalVariation, total_variation

__all__ = ["TotalVariation", "total_variation"]
