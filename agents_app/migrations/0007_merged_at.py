"""When an agent was merged, and into which agent at first: a later merge of that agent no longer rewrites it."""

from django.db import migrations, models


def steps_as_they_were_made(apps, schema_editor):
    Agent, AuditEntry = apps.get_model("agents_app", "Agent"), apps.get_model("agents_app", "AuditEntry")
    by_place = {(agent.pool_id, agent.number): agent for agent in Agent.objects.all()}
    made = {}
    for entry in AuditEntry.objects.filter(action="agent.merged", pool__isnull=False).order_by("pk"):
        number, into = entry.detail.get("id"), entry.detail.get("into")
        if (entry.pool_id, number) in by_place and (entry.pool_id, into) in by_place:
            made[entry.pool_id, number] = (by_place[entry.pool_id, into], entry.at)
    for place, agent in by_place.items():
        if agent.merged_into_id is None:
            continue
        into, at = made.get(place, (None, agent.retired_at))
        agent.merged_at = at
        end, seen = into, set()
        while end is not None and end.merged_into_id is not None and end.pk != agent.merged_into_id and end.pk not in seen:
            seen.add(end.pk)
            step = made.get((end.pool_id, end.number))
            end = step[0] if step else None
        if end is not None and end.pk == agent.merged_into_id and into.pk != agent.pk:
            agent.merged_into_id = into.pk
    for agent in by_place.values():
        if agent.merged_into_id is not None:
            Agent.objects.filter(pk=agent.pk).update(merged_into=agent.merged_into_id, merged_at=agent.merged_at)


class Migration(migrations.Migration):
    dependencies = [("agents_app", "0006_keys_label_for_their_maker")]

    operations = [
        migrations.AddField(
            model_name="agent",
            name="merged_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.RunPython(steps_as_they_were_made, migrations.RunPython.noop),
    ]
