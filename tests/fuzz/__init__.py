"""What a stranger can send, and the law that every input must keep.

Each module beside this one that has `fuzz_one` is a target: it takes any bytes and raises only when
the software has a defect. `law` says what a defect is, `changes` makes inputs from good ones,
`run` drives a target by coverage, and `tests/test_fuzz.py` drives all of them for a moment.
"""
