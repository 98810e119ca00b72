{{/* srv.xml. */}}

{{- define "frs.srv" -}}
<?xml version="1.0" encoding="UTF-8"?>
<srv>
  <workers>{{ .Values.workers }}</workers>
  {{- if .Values.tls.enabled }}
  {{- include "frs.certificate" . | nindent 2 }}
  {{- end }}
  {{- range .Values.addresses }}
  <listen {{- include "frs.tls" (list $ "http") }}>{{ . }}:{{ $.Values.ports.http }}</listen>
  {{- if $.Values.metrics.enabled }}
  <metrics listen="{{ . }}:{{ $.Values.ports.metrics }}" {{- include "frs.tls" (list $ "metrics") }}/>
  {{- end }}
  {{- if $.Values.resp.enabled }}
  <resp listen="{{ . }}:{{ $.Values.ports.resp }}" {{- include "frs.resp" $ }}/>
  {{- end }}
  {{- end }}
  {{- range .Values.allow }}
  <allow>{{ . | html }}</allow>
  {{- end }}
  <admin listen="unix:/run/frs/admin.sock"/>
  {{- with .Values.admin.tokenSecret }}
  {{- $file := include "frs.secretFile" (list $ . "admin-token") }}
  <admin listen="127.0.0.1:7601" token-file="{{ $file }}"/>
  {{- end }}
  {{- include "frs.clients" . | nindent 2 }}
  {{- with .Values.rls }}
  {{- if .enabled }}
  <rls listen="{{ first $.Values.addresses }}:{{ $.Values.ports.rls }}" charge="{{ .charge }}"
    {{- include "frs.tls" (list $ "rls") }}>
    {{- .domains | trim | nindent 4 }}
  </rls>
  {{- end }}
  {{- end }}
  {{- if .Values.cluster.enabled }}
  {{- include "frs.cluster" . | nindent 2 }}
  {{- end }}
  {{- with .Values.http }}
  <http {{- include "frs.attributes" . }}/>
  {{- end }}
  <data dir="/data/frs" flush="{{ .Values.data.flush }}" mode="
    {{- .Values.data.mode | default (eq .Values.kind "DaemonSet" | ternary "0660" "0600") }}"/>
  <log level="{{ .Values.log.level }}" format="{{ .Values.log.format }}"/>
  {{- with .Values.watch }}
  <watch conf="{{ . }}"/>
  {{- end }}
  {{- with .Values.srv }}
  {{- . | trim | nindent 2 }}
  {{- end }}
</srv>
{{- end }}

{{- define "frs.resp" -}}
{{- include "frs.tls" (list . "resp") }}
{{- with .Values.resp.throttle }} throttle="{{ . | html }}"{{ end }}
{{- with .Values.resp.registers }} registers="{{ . | html }}"{{ end }}
{{- with .Values.resp.tokenSecret }} token-file="
{{- include "frs.secretFile" (list $ . "resp-token") }}"{{ end }}
{{- end }}

{{- define "frs.certificate" -}}
{{- $dir := printf "/frs/secrets/%s" (include "frs.tlsSecret" .) -}}
<tls name="edge" cert="{{ $dir }}/tls.crt" key="{{ $dir }}/tls.key" min="{{ .Values.tls.min }}"
  {{- with .Values.tls.client }} client="{{ . }}"
  {{- with $.Values.tls.clientCa }} client-ca="/frs/secrets/{{ .name }}/{{ .key }}"{{ end }}
  {{- end }}/>
{{- end }}

{{/* The attribute of a listener that speaks TLS: (list $ LISTENER). */}}
{{- define "frs.tls" -}}
{{- if include "frs.hasTls" . }} tls="edge"{{ end }}
{{- end }}

{{- define "frs.clients" -}}
<clients>
  {{- range .Values.clients }}
  <client name="{{ .name }}"
    {{- with .cert }} cert="{{ . | html }}"{{ end }}
    {{- $own := printf "client-%s" .name }}
    {{- with .tokenSecret }} token-file="{{ include "frs.secretFile" (list $ . $own) }}"{{ end -}}
    {{ " " }}may="{{ .may }}"
    {{- with .biz }} biz="{{ . | html }}"{{ end }}/>
  {{- end }}
  {{- $anonymous := pick .Values.anonymous "may" "unix" "biz" }}
  {{- range $name, $value := $anonymous }}
  {{- if not $value }}
  {{- $_ := unset $anonymous $name }}
  {{- end }}
  {{- end }}
  {{- if or $anonymous.may $anonymous.unix }}
  <anonymous {{- include "frs.attributes" $anonymous }}/>
  {{- end }}
</clients>
{{- end }}

{{- define "frs.cluster" -}}
{{- $secret := include "frs.secretFile" (list . .Values.cluster.secret "cluster-secret") -}}
<cluster name="{{ .Values.cluster.name }}" secret-file="{{ $secret }}"
{{- include "frs.attributes" .Values.cluster.settings }}>
{{- range .Values.cluster.nodes }}
  <node {{- with $.Values.cluster.user }} user="{{ . | html }}"{{ end }}
  {{- with $.Values.cluster.passwordSecret }} password-file="
  {{- include "frs.secretFile" (list $ . "cluster-password") }}"{{ end }}>{{ . | html }}</node>
{{- end }}
</cluster>
{{- end }}

{{/* A map as attributes of an element. Helm reads numbers as floats, and would write 1e+06. */}}
{{- define "frs.attributes" -}}
{{- range $name, $value := . }}
{{- if kindIs "float64" $value }}
{{- $value = int64 $value }}
{{- end }} {{ $name }}="{{ $value | toString | html }}"
{{- end }}
{{- end }}
