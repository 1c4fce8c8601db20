"""A scorecard as a run leaves it."""

INTERVAL = {"mean": 0.9, "low": 0.88, "high": 0.92}
MEASURES = ("jaccard", "precision", "recall", "f1", "exact", "success", "set_size", "over", "under")


def scorecard(low: float = -0.01, high: float = 0.03) -> dict:
    measured = dict.fromkeys(MEASURES, INTERVAL)
    lead = {"mean": (low + high) / 2, "low": low, "high": high}
    return {
        "metrics": measured,
        "queries": 12,
        "measured_on": "test",
        "baselines": {"svm": {"metrics": measured, "difference": {"jaccard": lead}}},
        "best_baseline": "svm",
        "by_size": {"1": {"queries": 12, **measured}},
        "by_agent": [
            {"id": 0, "name": "Billing", "support": 3, "selected": 3, "precision": 1.0, "recall": 1.0, "f1": 1.0},
            {"id": 1, "name": "Shipping", "support": 0, "selected": 0, "precision": None, "recall": None, "f1": None},
        ],
        "calibration": {"ece": 0.02, "ece_before": 0.05, "reliability": [{"p": 0.1, "frequency": 0.2, "count": 4}]},
        "robustness": {"typos": 0.125},
        "robustness_jaccard": {"clean": 0.876, "typos": 0.842},
        "empty": {"precision": 0.75, "recall": 0.625},
        "out_of_scope": {"auroc": 0.9637, "fpr95": 0.145},
        "needed": {"kept": True, "auroc": {"scores": 0.951, "with_nearness": 0.972}},
        "abstention": {
            "level": 0.0,
            "rate": 0.0,
            "at": [
                {
                    "alpha": 0.05,
                    "level": 0.4,
                    "rate": 0.113,
                    "false_abstention": 0.047,
                    "misrouted_caught": 0.391,
                    "exact_answered": 0.955,
                }
            ],
        },
        "error_count": 1,
        "errors": [
            {
                "text": "<b>my parcel</b>",
                "required": [1],
                "selected": [0],
                "nearest": [{"text": "a parcel", "required": [1], "words_in_common": 1}],
            }
        ],
        "warnings": ["Only 3 queries of the train split require Billing: label more of them."],
    }
