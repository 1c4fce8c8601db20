"""How often figures hold: `python -m benchmarks.coverage [--draws N] [--write]`.

`figures`: each figure that is shown with an interval, made again and again from a known truth by the function that the product calls;
what is counted is how often its interval holds the truth. `verdicts`: how often the gate, a canary and drift say what is not so.
`vouched`: which row stands for which figure of the product. With --write the tables of docs/certainty.md are made anew: three to four
minutes of one core.
"""
