{{- define "quern.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "quern.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "quern.labels" -}}
{{ include "quern.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "quern.secretName" -}}
{{- .Values.auth.existingSecret | default (include "quern.fullname" .) -}}
{{- end -}}

{{- define "quern.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "quern.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "quern.checkAuth" -}}
{{- if and (not .Values.auth.disabled) (not .Values.auth.apiKey) (not .Values.auth.existingSecret) -}}
{{- fail "auth: set auth.apiKey or auth.existingSecret, or auth.disabled=true to let everybody in the cluster use the models" -}}
{{- end -}}
{{- end -}}
