"""What Agentic Resource Discovery asks and answers."""

from typing import Any

from rest_framework import serializers


class ArdQuery(serializers.Serializer[Any]):
    """What is searched for."""

    text = serializers.CharField(help_text="The need, in a sentence.")
    filter = serializers.DictField(
        required=False,
        help_text="By a field's path in an entry (`tags`, `metadata.pool`, `publisher`): a text, or a list of which any will do.",
    )


class ArdSearchRequest(serializers.Serializer[Any]):
    """A search."""

    query = ArdQuery(help_text="What is searched for.")
    federation = serializers.ChoiceField(
        ["auto", "referrals", "none"], required=False, help_text="This site asks no other registry, whichever it is."
    )
    pageSize = serializers.IntegerField(
        required=False, min_value=1, max_value=100, help_text="Most results; 10 without it."
    )
    pageToken = serializers.CharField(required=False, help_text="That of an earlier answer, for the next page.")


class ArdResultSerializer(serializers.Serializer[Any]):
    """An agent as a catalog entry."""

    identifier = serializers.CharField(help_text="`urn:air:PUBLISHER:POOL:KEY`.")
    displayName = serializers.CharField(help_text="Its name.")
    type = serializers.CharField(help_text="The media type of `data`.")
    data = serializers.DictField(  # type: ignore[assignment]
        help_text="The agent: id, key, code, name, description, keywords, cost, pool."
    )
    description = serializers.CharField(required=False, help_text="What it does.")
    tags = serializers.ListField(child=serializers.CharField(), required=False, help_text="Its keywords.")
    metadata = serializers.DictField(help_text="Pool, the agent's id there, and cost.")
    score = serializers.IntegerField(
        help_text="How well it fits the text, 0 to 100: the probability that the text needs it."
    )
    source = serializers.CharField(help_text="The address of this registry.")  # type: ignore[assignment]


class ArdSearchSerializer(serializers.Serializer[Any]):
    """What was found, best first."""

    results = ArdResultSerializer(many=True, help_text="One page of entries.")
    referrals = serializers.ListField(
        child=serializers.DictField(),
        required=False,
        help_text="With `referrals`: none, as this site knows no other registry.",
    )
    pageToken = serializers.CharField(required=False, help_text="Asks for the next page, where there is one.")


class ArdCatalogSerializer(serializers.Serializer[Any]):
    """The manifest of a site."""

    specVersion = serializers.CharField(help_text="Of the catalog's format.")
    host = serializers.DictField(help_text="Who publishes it.")
    entries = serializers.ListField(child=serializers.DictField(), help_text="One: the search.")
