"""Scorecards and the agents that a model learnt go into tables of their own; `0017` takes the old columns away."""

import django.db.models.deletion
from django.db import migrations, models


def mean(content, measure):
    figure = ((content or {}).get("metrics") or {}).get(measure) or {}
    return figure.get("mean")


def move(apps, schema_editor):
    database = schema_editor.connection.alias
    of = {name: apps.get_model("training_app", name).objects.using(database) for name in ("RouterModel", "Scorecard", "LearntRoster")}
    for model in of["RouterModel"].iterator(chunk_size=1):
        content = model.scorecard or {}
        of["Scorecard"].create(
            model_id=model.pk,
            content=content,
            validation=(content.get("best_validation") or {}).get("val_jaccard"),
            **{measure: mean(content, measure) for measure in ("jaccard", "f1", "exact")},
        )
        of["LearntRoster"].create(model_id=model.pk, agents=model.roster)


def move_back(apps, schema_editor):
    database = schema_editor.connection.alias
    models_ = apps.get_model("training_app", "RouterModel").objects.using(database)
    for measured in apps.get_model("training_app", "Scorecard").objects.using(database).iterator(chunk_size=1):
        models_.filter(pk=measured.model_id).update(scorecard=measured.content)
    for learnt in apps.get_model("training_app", "LearntRoster").objects.using(database).iterator(chunk_size=1):
        models_.filter(pk=learnt.model_id).update(roster=learnt.agents)


class Migration(migrations.Migration):
    dependencies = [("training_app", "0015_shares_of_a_keys_minute")]

    operations = [
        migrations.CreateModel(
            name="Scorecard",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("content", models.JSONField(default=dict, verbose_name="scorecard")),
                ("jaccard", models.FloatField(null=True)),
                ("f1", models.FloatField(null=True)),
                ("exact", models.FloatField(null=True)),
                ("validation", models.FloatField(null=True)),
                (
                    "model",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="measured", to="training_app.routermodel"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LearntRoster",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("agents", models.JSONField(default=list, verbose_name="roster")),
                (
                    "model",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="learnt", to="training_app.routermodel"
                    ),
                ),
            ],
        ),
        migrations.RunPython(move, move_back),
    ]
