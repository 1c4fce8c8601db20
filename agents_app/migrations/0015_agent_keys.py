"""Each agent has a key: its name in programs, made from the name that it has now."""

from django.core.validators import RegexValidator
from django.db import migrations, models
from django.utils.text import slugify


def from_their_names(apps, schema_editor):
    Agent = apps.get_model("agents_app", "Agent")
    taken = {}
    for agent in Agent.objects.order_by("pool_id", "number").iterator():
        used, plain = taken.setdefault(agent.pool_id, set()), slugify(agent.name)[:55].strip("-_")
        wanted = plain if any(letter.isalpha() for letter in plain) else f"agent-{agent.number}"
        key = next(one for one in (wanted, *(f"{wanted}-{n}" for n in range(2, len(used) + 3))) if one not in used)
        used.add(key)
        Agent.objects.filter(pk=agent.pk).update(key=key)


class Migration(migrations.Migration):
    dependencies = [("agents_app", "0014_pool_roles")]

    operations = [
        migrations.AddField("agent", "key", models.CharField(default="", editable=False, max_length=60), preserve_default=False),
        migrations.RunPython(from_their_names, migrations.RunPython.noop),
        migrations.AlterField(
            "agent",
            "key",
            models.CharField(
                editable=False,
                help_text="The agent's name in programs, made from its first name; it stays when the agent is renamed.",
                max_length=60,
                validators=[
                    RegexValidator(r"^(?=.*[a-z])[a-z0-9][a-z0-9_-]*\Z", "Small letters, digits, - and _, a letter among them.")
                ],
                verbose_name="key",
            ),
        ),
        migrations.AddConstraint(
            "agent", models.UniqueConstraint(fields=("pool", "key"), name="agent_key_unique_in_pool")
        ),
    ]
