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
{{- else if .Values.nats.enabled }}nats://{{ include "millstream.natsName" . }}.{{ .Release.Namespace }}.svc:4222
{{- else }}{{ fail "cluster.enabled needs nats.enabled, or cluster.urls" }}{{ end }}
{{- end }}

{{/* The name that the chart of NATS gives its Service: its own rule, which leaves out a second "nats". */}}
{{- define "millstream.natsName" -}}
{{- $name := .Values.nats.nameOverride | default "nats" }}
{{- if .Values.nats.fullnameOverride }}{{ .Values.nats.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{/* Whoever can write to NATS can name any server as the home of any stream, so it asks for a password. */}}
{{- define "millstream.checkNats" -}}
{{- if and .Values.cluster.enabled .Values.nats.enabled (not .Values.cluster.urls) }}
{{- $password := dig "container" "env" "NATS_PASSWORD" "valueFrom" "secretKeyRef" dict .Values.nats }}
{{- $authorization := dig "config" "merge" "authorization" dict .Values.nats }}
{{- if ne .Values.existingSecret (get $password "name" | toString) }}
{{- fail "nats.container.env.NATS_PASSWORD.valueFrom.secretKeyRef.name has to be existingSecret" }}
{{- end }}
{{- if or (not .Values.cluster.natsUser) (ne .Values.cluster.natsUser (get $authorization "user" | toString)) }}
{{- fail "nats.config.merge.authorization.user has to be cluster.natsUser" }}
{{- end }}
{{- if not (get $authorization "password") }}
{{- fail "nats.config.merge.authorization.password is missing" }}
{{- end }}
{{- end }}
{{- end }}

{{/* memoryPercent of the container's limit, in bytes; empty without a limit. */}}
{{- define "millstream.memoryBytes" -}}
{{- $limit := dig "limits" "memory" "" .Values.resources }}
{{- if and $limit .Values.memoryPercent }}
{{- $units := dict "" 1.0 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 }}
{{- $text := ternary $limit (printf "%.0f" (float64 $limit)) (kindIs "string" $limit) }}
{{- $number := regexFind "^[0-9.]+" $text }}
{{- $unit := trimPrefix $number $text }}
{{- if not (hasKey $units $unit) }}{{ fail (printf "resources.limits.memory: %s" $text) }}{{ end }}
{{- printf "%.0f" (divf (mulf (float64 $number) (get $units $unit) (float64 .Values.memoryPercent)) 100.0) }}
{{- end }}
{{- end }}
