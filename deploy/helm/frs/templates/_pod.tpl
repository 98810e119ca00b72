{{/* The template of pods, the same in a StatefulSet and a DaemonSet. */}}

{{- define "frs.pod" -}}
{{- $secrets := include "frs.secrets" . | fromYaml -}}
metadata:
  labels:
    {{- include "frs.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/restart: {{ include "frs.restart" . }}
    {{- if and .Values.metrics.enabled .Values.metrics.annotations }}
    prometheus.io/scrape: "true"
    prometheus.io/port: {{ .Values.ports.metrics | quote }}
    {{- if include "frs.hasTls" (list . "metrics") }}
    prometheus.io/scheme: https
    {{- end }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- range $name := list "nodeSelector" "tolerations" "affinity" }}
  {{- with get $.Values $name }}
  {{ $name }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- if and .Values.topologySpread.enabled (eq .Values.kind "StatefulSet") }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: {{ .Values.topologySpread.topologyKey }}
      whenUnsatisfiable: {{ .Values.topologySpread.whenUnsatisfiable }}
      labelSelector:
        matchLabels:
          {{- include "frs.selector" . | nindent 10 }}
  {{- end }}
  {{- if eq .Values.kind "DaemonSet" }}
  initContainers:
    # The node's directory is root's, and fsGroup does not reach it.
    - name: own
      image: {{ .Values.hostPath.initImage }}
      command: ["sh", "-c", "mkdir -p -m 0750 /data/frs && chown 10001:10001 /data/frs"]
      securityContext:
        runAsNonRoot: false
        runAsUser: 0
        runAsGroup: 0
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
          add: [CHOWN]
      resources:
        requests:
          cpu: 10m
          memory: 16Mi
      volumeMounts:
        - name: data
          mountPath: /data
  {{- end }}
  containers:
    - name: frs
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      {{- with .Values.extraEnv }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        {{- range $name, $port := include "frs.ports" . | fromYaml }}
        - name: {{ $name }}
          containerPort: {{ $port }}
        {{- end }}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      # After a crash of the machine the server scans large groups before it serves.
      startupProbe:
        {{- include "frs.health" . | nindent 8 }}
        periodSeconds: 2
        failureThreshold: 900
      readinessProbe:
        {{- include "frs.health" . | nindent 8 }}
        periodSeconds: 5
      # Fails only if the master is gone; it replaces all other processes itself.
      livenessProbe:
        exec:
          command: ["/usr/bin/frs", "status", "--data", "/data/frs"]
        periodSeconds: 10
        timeoutSeconds: 5
      {{- if semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version }}
      lifecycle:
        preStop:
          sleep:
            seconds: {{ .Values.preStopSeconds }}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        - name: data
          mountPath: /data
        - name: run
          mountPath: /run/frs
        # A directory and no single file: a file would not follow the ConfigMap.
        - name: conf
          mountPath: /frs/conf
          readOnly: true
        {{- range $i, $name := $secrets.names }}
        - name: secret-{{ $i }}
          mountPath: /frs/secrets/{{ $name }}
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: run
      emptyDir:
        medium: Memory
        sizeLimit: 1Mi
    - name: conf
      projected:
        sources:
          - configMap:
              name: {{ include "frs.fullname" . }}
          {{- with .Values.existingMap }}
          - configMap:
              name: {{ . }}
              items:
                - key: map.xml
                  path: map.xml
          {{- end }}
    {{- range $i, $name := $secrets.names }}
    - name: secret-{{ $i }}
      secret:
        secretName: {{ $name }}
        # 0440, which some readers of YAML take for a decimal number.
        defaultMode: 288
    {{- end }}
    {{- if eq .Values.kind "DaemonSet" }}
    - name: data
      hostPath:
        path: {{ .Values.hostPath.path }}
        type: DirectoryOrCreate
    {{- else if not .Values.persistence.enabled }}
    - name: data
      emptyDir:
        medium: Memory
        sizeLimit: {{ .Values.memory.size }}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* The ports that are served: name and number. */}}
{{- define "frs.ports" -}}
http: {{ .Values.ports.http }}
{{- if .Values.metrics.enabled }}
metrics: {{ .Values.ports.metrics }}
{{- end }}
{{- if .Values.resp.enabled }}
resp: {{ .Values.ports.resp }}
{{- end }}
{{- if .Values.rls.enabled }}
grpc-rls: {{ .Values.ports.rls }}
{{- end }}
{{- end }}

{{/* The question of the startup and readiness probes. The kubelet shows no certificate, so where
     one is required, it asks another listener, or frs itself. */}}
{{- define "frs.health" -}}
{{- $closed := eq .Values.tls.client "required" }}
{{- $http := include "frs.hasTls" (list . "http") }}
{{- $metrics := include "frs.hasTls" (list . "metrics") }}
{{- $port := "http" }}
{{- $tls := $http }}
{{- if and $http $closed }}
{{- $port = "metrics" }}
{{- $tls = "" }}
{{- end }}
{{- if and (eq $port "metrics") (or $metrics (not .Values.metrics.enabled)) -}}
exec:
  command: ["/usr/bin/frs", "status", "--data", "/data/frs"]
timeoutSeconds: 5
{{- else -}}
httpGet:
  path: /health
  port: {{ $port }}
  {{- if $tls }}
  scheme: HTTPS
  {{- end }}
  {{- with .Values.http.hosts }}
  httpHeaders:
    - name: Host
      value: {{ regexFind "[^\\s]+" . | quote }}
  {{- end }}
{{- end }}
{{- end }}
