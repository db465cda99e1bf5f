package backend

import (
	"math/bits"
	"sync/atomic"
)

// histogramBuckets is how many buckets a Histogram has: the last one is for
// more than 2^(histogramBuckets-2).
const histogramBuckets = 26

// Histogram counts whole numbers in buckets that are each twice as wide as the
// one before. The zero value is empty. Its methods are safe for concurrent use,
// and counting costs two atomic additions.
type Histogram struct {
	buckets [histogramBuckets]atomic.Uint64
	sum     atomic.Uint64
}

// Observe counts n.
func (h *Histogram) Observe(n uint64) {
	bucket := 0
	if n > 1 {
		bucket = bits.Len64(n - 1)
	}
	h.buckets[min(bucket, histogramBuckets-1)].Add(1)
	h.sum.Add(n)
}

// Counts is what a Histogram has counted up to a moment.
type Counts struct {
	// Buckets holds how many numbers were at most 2^i and more than 2^(i-1), by
	// i. The last bucket has all that were larger.
	Buckets [histogramBuckets]uint64
	// Count is how many numbers there were, Sum what they come to.
	Count, Sum uint64
}

// Counts returns what has been counted.
func (h *Histogram) Counts() (c Counts) {
	for i := range h.buckets {
		c.Buckets[i] = h.buckets[i].Load()
		c.Count += c.Buckets[i]
	}
	c.Sum = h.sum.Load()
	return c
}
