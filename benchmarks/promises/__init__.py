"""Whether what the product says of quality comes true, where the truth can be counted: `python -m benchmarks.promises PART`.

    range      of 60 labels drawn from a pool, does the stated range of exactly right answers hold what fresh queries show?
    shift      the same, where labels have no query for several agents and none for nobody, and traffic has both
    guarantee  of the answers given, are at most ε wrong, over resplits?
    alarm      how many outcomes or checked answers it takes until a broken promise is told, and how often a kept one is
    better     how often a headline names a better model: of two equal ones, and of two that are apart

The first three train by the quick recipe of the demo's first router, judged by cross-validation as a run is. `--data` is the folder
that holds the pools research_static, mixsnips, clinc_domains and nlupp_hotels; `costs` and `invented` are made up.
"""
