// Package remote gives the config that a machine ends up with: it fetches the configs
// that one names (ignition.config.merge, replace and append), as Ignition does, and
// merges them. Nothing is fetched but from where an allow-list says so, which is held
// against the address that is dialled; the depth, the number and the size of what is
// fetched are bounded, and so is the time.
package remote
