"""Spans that other programs send."""

from typing import Any

from rest_framework import serializers

from training_app.api.fields import PoolSlug
from training_app.api.serializers.base import QueryString


class TracesParameters(QueryString):
    """Which pool they are of."""

    pool = PoolSlug()


class TracesRequest(serializers.Serializer[Any]):
    """OpenTelemetry's ExportTraceServiceRequest."""

    resourceSpans = serializers.ListField(
        child=serializers.DictField(), help_text="The spans, as OTLP has them in JSON."
    )


class PartialSuccessSerializer(serializers.Serializer[Any]):
    """What was left out."""

    rejectedSpans = serializers.CharField(help_text="How many spans were left out.")
    errorMessage = serializers.CharField(help_text="Why.")


class TracesSerializer(serializers.Serializer[Any]):
    """OpenTelemetry's ExportTraceServiceResponse."""

    partialSuccess = PartialSuccessSerializer(required=False, help_text="Absent where every span was taken.")
