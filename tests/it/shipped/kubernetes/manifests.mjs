// Reads YAML documents from standard input, checks the kinds that Kubernetes itself does not have,
// and writes all documents as one array of JSON. FRS_KUBERNETES_MODELS names the folder of the
// packages.

import { readFileSync } from "node:fs";

const packages = `file://${process.env.FRS_KUBERNETES_MODELS}/node_modules`;
const { parseAllDocuments } = await import(`${packages}/yaml/dist/index.js`);
const checked = {
  ServiceMonitor: "prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor.js",
  Certificate: "cert-manager/cert-manager.io/v1/Certificate.js",
};

const documents = [];
for (const document of parseAllDocuments(readFileSync(0, "utf8"))) {
  if (document.errors.length > 0) throw document.errors[0];
  const manifest = document.toJS();
  if (manifest === null) continue;
  if (manifest.kind in checked) {
    const model = await import(`${packages}/@kubernetes-models/${checked[manifest.kind]}`);
    new model[manifest.kind](manifest).validate();
  }
  documents.push(manifest);
}
console.log(JSON.stringify(documents));
