package ledger

// Mismatch says that what is stored is not the store that a data directory belongs
// to, or not all of it. Nothing is followed, made or written until an operator
// mends it.
type Mismatch struct {
	// Reason says what was found, and what was expected.
	Reason string
	// Remedy says what to do.
	Remedy string
}

func (m *Mismatch) Error() string { return m.Reason }

// Hint is what to do about it.
func (m *Mismatch) Hint() string { return m.Remedy }
