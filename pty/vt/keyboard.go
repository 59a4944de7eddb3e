package vt

// keyDepth bounds the kitty keyboard stack; a push beyond drops the oldest level.
const keyDepth = 16

// keyStack holds the kitty keyboard flags of one screen. level[0] is in force
// when nothing was pushed (kitty, "Progressive enhancement").
type keyStack struct {
	level [keyDepth + 1]uint8
	n     int // pushed levels
}

const keyFlags = 0x1f

func (k *keyStack) flags() uint8 { return k.level[k.n] }

func (k *keyStack) push(f uint8) {
	if k.n == keyDepth {
		copy(k.level[1:], k.level[2:])
		k.n--
	}
	k.n++
	k.level[k.n] = f & keyFlags
}

// pop takes n levels away; popping more than there are clears the flags.
func (k *keyStack) pop(n int) {
	if n > k.n {
		*k = keyStack{}
		return
	}
	for range n {
		k.level[k.n] = 0
		k.n--
	}
}

// set is CSI = flags ; how u.
func (k *keyStack) set(f uint8, how int) {
	v := &k.level[k.n]
	f &= keyFlags
	switch how {
	case 1:
		*v = f
	case 2:
		*v |= f
	case 3:
		*v &^= f
	}
}
