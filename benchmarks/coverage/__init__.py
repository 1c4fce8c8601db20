"""How often figures hold: `python -m benchmarks.coverage [--draws N] [--only TABLE …] [--write]`.

`figures`: each figure that is shown with an interval, made again and again from a known truth by the function that the product calls;
what is counted is how often its interval holds the truth. `laws`: the same over many laws, exactly, and what learning curves promise.
`verdicts`: how often the gate, a canary and drift say what is not so. `vouched`: which row stands for which figure of the product.
With --write the tables of docs/certainty.md are made again: six minutes of one core.
"""
