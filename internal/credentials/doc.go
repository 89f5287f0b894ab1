// Package credentials makes what the server needs to be reached securely, on its
// first start, and keeps it: an own CA, a server certificate, an admin token
// (stored as its hash alone) and an admin.kubeconfig that holds all a client needs.
package credentials
