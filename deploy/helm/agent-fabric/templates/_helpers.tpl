{{- define "fabric.name" -}}
{{- printf "%s" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "fabric.labels" -}}
app.kubernetes.io/name: agent-fabric
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "fabric.metadata-labels" -}}
{{ include "fabric.labels" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "fabric.service-account" -}}
{{ .Values.serviceAccount.name | default (include "fabric.name" .) }}
{{- end -}}

{{- define "fabric.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end -}}

{{/* What all pods have in common: nobody special, no token of Kubernetes, nothing to write to but its own folders. */}}
{{- define "fabric.pod" -}}
serviceAccountName: {{ include "fabric.service-account" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
volumes:
  - name: state
    {{- if eq .Values.workspaces.kind "shared" }}
    persistentVolumeClaim: {claimName: {{ include "fabric.name" . }}}
    {{- else }}
    emptyDir: {}
    {{- end }}
  - name: keys
    emptyDir: {medium: Memory, sizeLimit: 1Mi}
  - name: tmp
    emptyDir: {}
  - name: config
    configMap: {name: {{ include "fabric.name" . }}}
{{- end -}}

{{- define "fabric.container" -}}
image: {{ include "fabric.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  - name: FABRIC_CONFIG_PATH
    value: /etc/agent-fabric/config.yaml
envFrom:
  - secretRef: {name: {{ .Values.secret }}}
volumeMounts:
  - {name: state, mountPath: /var/lib/agent-fabric}
  - {name: keys, mountPath: /var/lib/agent-fabric-keys}
  - {name: tmp, mountPath: /tmp}
  - {name: config, mountPath: /etc/agent-fabric, readOnly: true}
{{- end -}}
