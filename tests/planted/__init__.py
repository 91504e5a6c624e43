"""Bugs that the audit must notice, planted in the package as it runs and never in its files.

A bug is a few lines, decorated with the layer that must notice it, its name, words of the finding
and, if it saves time, words of the checks to begin with:

    @ledger("a cap has a tolerance of 1e-6", r"of the cap was spent above it", "last bit")
    @instead_of(at.Ledger.charge)
    def _(true, ledger, *how):
        wider = replace(ledger, cap=Budget(ledger.cap.rho * (1 + 1e-6)))
        return replace(true(wider, *how), cap=ledger.cap)

It replaces callables of the imported package (`instead_of`, `wrap`, `shadow`, `put`) or, where it
sits in the middle of a function, a node of that function's syntax tree (`never`, `leave_out`,
`through`). Nothing is matched by its text, so lines may be written anew, and what a bug names but
is not there any more is known at once. All that is named comes from `places`.
`start/sitecustomize.py` plants the bug in every process of an audit when that first imports the
package; `tests/test_planted_bugs.py` runs them all.
"""
