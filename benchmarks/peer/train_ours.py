"""`python train_ours.py DATA ARTIFACT [SEED]` trains the default router on DATA and writes its artifact."""

import json
import sys
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent.parent))


def main(folder: str, artifact: str, seed: int) -> None:
    from training_app.engine.config import Config
    from training_app.engine.data.folders import read_folder
    from training_app.engine.train import train

    data = read_folder(Path(folder))
    config = Config.from_mapping({"seed": seed, "baselines": False})
    result = None
    for progress in train(config, data.agents, [*data.train, *data.val, *data.test]):
        result = progress.result or result
    assert result is not None
    Path(artifact).write_bytes(result.artifact)
    print(json.dumps({"process_cpu_seconds": time.process_time()}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0)
