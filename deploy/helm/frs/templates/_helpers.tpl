{{/* Names and labels, and where secrets are. */}}

{{- define "frs.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "frs.fullname" -}}
{{- $name := include "frs.name" . }}
{{- $both := printf "%s-%s" .Release.Name $name }}
{{- if contains $name .Release.Name }}
{{- $both = .Release.Name }}
{{- end }}
{{- .Values.fullnameOverride | default $both | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "frs.selector" -}}
app.kubernetes.io/name: {{ include "frs.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "frs.labels" -}}
{{ include "frs.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* All secrets that the values name: `own`, the texts that the chart's Secret holds, and `names`,
     the Secrets that are mounted. Each is mounted whole, so a key more in it restarts nothing. */}}
{{- define "frs.secrets" -}}
{{- $refs := dict "admin-token" .Values.admin.tokenSecret }}
{{- if .Values.resp.enabled }}
{{- $_ := set $refs "resp-token" .Values.resp.tokenSecret }}
{{- end }}
{{- if .Values.cluster.enabled }}
{{- $_ := set $refs "cluster-secret" .Values.cluster.secret }}
{{- $_ := set $refs "cluster-password" .Values.cluster.passwordSecret }}
{{- end }}
{{- range .Values.clients }}
{{- $_ := set $refs (printf "client-%s" .name) (.tokenSecret | default dict) }}
{{- end }}
{{- $own := dict }}
{{- $names := list }}
{{- if .Values.tls.enabled }}
{{- $names = append $names (include "frs.tlsSecret" .) }}
{{- with .Values.tls.clientCa }}
{{- $names = append $names .name }}
{{- end }}
{{- end }}
{{- range $key, $ref := $refs }}
{{- if $ref.value }}
{{- $_ := set $own $key $ref.value }}
{{- $names = append $names (include "frs.fullname" $) }}
{{- else if $ref.name }}
{{- $names = append $names $ref.name }}
{{- end }}
{{- end }}
{{- toYaml (dict "own" $own "names" ($names | uniq | sortAlpha)) }}
{{- end }}

{{/* The Secret of the certificate and its key. */}}
{{- define "frs.tlsSecret" -}}
{{- .Values.tls.secretName | default (printf "%s-tls" (include "frs.fullname" .)) }}
{{- end }}

{{/* `true` if a listener speaks TLS, else nothing: (list $ LISTENER). */}}
{{- define "frs.hasTls" -}}
{{- $tls := (index . 0).Values.tls }}
{{- if and $tls.enabled (has (index . 1) $tls.listeners) }}true{{ end }}
{{- end }}

{{/* The path of a secret: (list $ SECRET KEY-IN-THE-CHART'S-SECRET). */}}
{{- define "frs.secretFile" -}}
{{- $ref := index . 1 -}}
/frs/secrets/
{{- if $ref.value }}{{ include "frs.fullname" (index . 0) }}/{{ index . 2 }}
{{- else }}{{ $ref.name }}/{{ $ref.key }}
{{- end }}
{{- end }}

{{/* What only a restart puts in force. frs takes the rest when it sees the files change. */}}
{{- define "frs.restart" -}}
{{- $v := .Values }}
{{- $admin := not (empty $v.admin.tokenSecret) }}
{{- list $v.addresses $v.ports $v.metrics.enabled $v.resp.enabled $v.rls.enabled $admin
    $v.tls.enabled $v.tls.listeners $v.cluster.enabled $v.cluster.name $v.cluster.secret $v.log.format $v.watch $v.srv
    | toJson | sha256sum }}
{{- end }}
