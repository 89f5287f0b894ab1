//go:build race

package template

const raced = true
