{{- /* What every object is called and marked with. */ -}}
{{- define "routerweb.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "routerweb.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "routerweb.secret" -}}
{{ .Values.secret.existing | default .Release.Name }}
{{- end }}

{{- /* A value as it was typed: Helm reads 1000000 from a file as 1e+06. */ -}}
{{- define "routerweb.text" -}}
{{- if kindIs "float64" . }}{{ eq (floor .) . | ternary (printf "%.0f" .) (toString .) }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{- /* A pod of the image that runs one command: dict "root" $ "command" (list …) and, optionally, "more" (lines of the container)
and "backups" (the claim of a volume for them). */ -}}
{{- define "routerweb.pod" -}}
automountServiceAccountToken: false
# Kubernetes would set variables by the names of services, and ours are settings.
enableServiceLinks: false
# A run that trains goes back into the queue with its checkpoint, and decisions in memory are written.
terminationGracePeriodSeconds: 45
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
containers:
  - name: routerweb
    image: {{ include "routerweb.image" .root | quote }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    args: {{ toJson .command }}
    envFrom:
      - secretRef: {name: {{ include "routerweb.secret" .root }}}
    env:
      - {name: ALLOWED_HOSTS, value: {{ .root.Values.host | quote }}}
      - {name: SITE_URL, value: {{ printf "https://%s" .root.Values.host | quote }}}
      - {name: BEHIND_TLS_PROXY, value: "1"}
      {{- range $name, $value := .root.Values.settings }}
      - {name: {{ $name }}, value: {{ include "routerweb.text" $value | quote }}}
      {{- end }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    {{- with .resources }}
    resources: {{ toYaml . | nindent 6 }}
    {{- end }}
    {{- with .more }}
    {{- . | nindent 4 }}
    {{- end }}
    volumeMounts:
      - {name: data, mountPath: /srv/data}
      - {name: tmp, mountPath: /tmp}
      {{- if .backups }}
      - {name: backups, mountPath: /srv/backups}
      {{- end }}
volumes:
  {{- with .backups }}
  - name: backups
    persistentVolumeClaim: {claimName: {{ . }}}
  {{- end }}
  - name: tmp
    emptyDir: {}
  - name: data
    {{- if and .root.Values.data.enabled (not .migrating) }}
    persistentVolumeClaim: {claimName: {{ .root.Values.data.existingClaim | default (printf "%s-data" .root.Release.Name) }}}
    {{- else }}
    emptyDir: {}
    {{- end }}
{{- end }}
