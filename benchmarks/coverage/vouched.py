"""Which row of docs/certainty.md stands for which interval of the product; a test holds that none is missing."""

#: Where a scorecard holds an interval, by a pattern of its path, and which rows vouch for it.
RELEASED = {
    r"metrics\.(jaccard|precision|recall|needed_recall|f1|exact|success)": "mean Jaccard",
    r"metrics\.(set_size|over|under|value)": "agents in an answer",
    r"by_size\.[^.]+\.\w+": "mean Jaccard",
    r"baselines\.\w+\.metrics\.\w+": "mean Jaccard",
    r"baselines\.\w+\.difference\.(set_size|value)": "agents in an answer",
    r"baselines\.\w+\.difference\.\w+": "difference of two routers",
    r"baselines\.\w+\.by_size\.[^.]+\.difference": "difference of two routers",
    r"baselines\.\w+\.by_agent\.difference": "difference of an agent's F1",
    r"out_of_scope\.auroc_interval": "AUROC",
    r"out_of_scope\.fpr95_interval": "FPR95",
    r"cross_validated\.metrics\.\w+": "mean Jaccard by cross-validation",
    r"cross_validated\.baselines\.\w+\.metrics\.\w+": "mean Jaccard by cross-validation",
    r"cross_validated\.baselines\.\w+\.difference\.\w+": "lead by cross-validation",
    r"next_labels\.(right\.)?gain": "gain of the next 100 labels",
    r"fair_sample\.\w+": "mean Jaccard",
    r"needed\.(\w+\.)?loss_saved\w*": "agents in an answer",
    r"encoder\..*": "agents in an answer",
    r"decision\..*": "agents in an answer",
}

#: What makes an interval or a verdict, by module, and the rows that vouch for it.
MAKERS = {
    "intervals.bounded": ("mean Jaccard",),
    "intervals.difference": ("difference of two routers", "difference of an agent's F1"),
    "intervals.careful": ("gate",),
    "intervals.spread": ("agents in an answer",),
    "metrics.interval": ("mean Jaccard", "agents in an answer"),
    "metrics.paired": ("difference of two routers", "agents in an answer"),
    "metrics.summary": ("mean Jaccard", "agents in an answer"),
    "metrics.by_size": ("mean Jaccard", "agents in an answer"),
    "metrics.by_agent": ("F1 of an agent",),
    "metrics.auroc_interval": ("AUROC",),
    "metrics.fpr95_interval": ("FPR95",),
    "metrics.calibration_floor": ("calibration error of a perfect scorer below its floor",),
    "analysis.beside": ("difference of two routers", "difference of an agent's F1"),
    "shares.wilson": ("a share: success, exact match live",),
    "shares.difference": ("difference of two shares",),
    "shares.apart": ("difference by two scorecards",),
    "shares.means": ("difference of agents in an answer, two sides of a canary",),
    "folds.widened": ("mean Jaccard by cross-validation",),
    "folds.lead": ("lead by cross-validation",),
    "folds.figures": ("mean Jaccard by cross-validation",),
    "folds.leads": ("lead by cross-validation",),
    "next_labels.expected": ("gain of the next 100 labels",),
    "next_labels.in_all": ("gain of the next 100 labels",),
    "off_policy.estimate": ("off-policy SNIPS", "off-policy DR", "off-policy IPS"),
    "agreement.alpha": ("Krippendorff's α",),
    "calibration.conformal_level": ("abstention at α = 0.05: the share is not exceeded",),
    "sequential.difference": ("canaries",),
    # What `python -m benchmarks.promises alarm` counts.
    "sequential.broken": ("promises",),
    "sequential.surprise": ("promises",),
    "drift.compare": ("drift",),
}
#: What these modules have besides: plain figures, and parts of the above.
PLAIN = {
    "Interval", "Sample", "likely", "rare", "student", "per_query", "bucket_of", "jaccard", "empty_sets", "auroc", "fpr95",
    "flip_rate",
    "reliability", "calibration_error", "mismatch", "width", "few", "cross_validated", "measured", "dealt", "errors", "Sketch",
    "Vocabulary", "beyond", "words_of", "looks", "Logged", "key_of",
}  # fmt: skip
