package kvstore

// LossLedger is a Ledger that knows why a bucket is missing.
type LossLedger interface {
	Ledger
	// Lost says why a bucket that was recorded is missing, with the remedy; nil if
	// nothing is known.
	Lost(bucket string) error
}

// bucketLost is the error of a bucket that held data and is missing.
func (s *Store) bucketLost() error {
	if ledger, ok := s.opts.Ledger.(LossLedger); ok {
		if err := ledger.Lost(s.kind.Bucket); err != nil {
			return err
		}
	}
	return errBucketLost
}
