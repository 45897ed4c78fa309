{{- define "millstream.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "millstream.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "millstream.labels" -}}
{{ include "millstream.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "millstream.nats" -}}
{{- if .Values.cluster.urls }}{{ join "," .Values.cluster.urls }}
{{- else if .Values.nats.enabled }}nats://{{ .Release.Name }}-nats.{{ .Release.Namespace }}.svc:4222
{{- else }}{{ fail "cluster.enabled needs nats.enabled, or cluster.urls" }}{{ end }}
{{- end }}
