package vt

import "unicode/utf8"

// cell is one screen position in 8 bytes without pointers. The zero value is a
// blank in the default style that nobody wrote to.
type cell struct {
	ch uint32 // bits 0..20 rune or cluster index, 21 cluster flag, 22..23 kind
	st uint32 // style id
}

const (
	chMask    = 1<<21 - 1
	chCluster = 1 << 21
	kindShift = 22

	kindNarrow = 0 << kindShift
	kindWide   = 1 << kindShift // left half, the text is here
	kindTail   = 2 << kindShift // right half of the wide cell before it
	kindFiller = 3 << kindShift // last column, left free because a wide cell did not fit
	kindMask   = 3 << kindShift
)

func (c cell) kind() uint32 { return c.ch & kindMask }
func (c cell) isTail() bool { return c.ch&kindMask == kindTail }
func (c cell) isWide() bool { return c.ch&kindMask == kindWide }

// blank reports whether nothing was written here: erased, or a filler.
func (c cell) blank() bool { return c.ch&(chMask|chCluster) == 0 && !c.isTail() }

// erased reports whether the cell is empty and not a filler.
func (c cell) erased() bool { return c.ch == 0 }

// maxCluster bounds a grapheme cluster in bytes: what is combined beyond it is
// dropped (UAX #29 knows no limit, "Zalgo" text finds none).
const maxCluster = 64

// maxLinks bounds the live hyperlinks; further text is printed without link.
const maxLinks = 1 << 16

// link is the target of an OSC 8 hyperlink.
type link struct{ id, uri string }

// tables intern what does not fit into a cell. Ids are stable until gc.
type tables struct {
	styles   []Style
	styleIdx []uint32 // open addressing, id+1, 0: free
	freeSt   []uint32
	liveSt   int
	limitSt  int

	clusters   []string
	clusterIdx map[string]uint32
	freeCl     []uint32
	limitCl    int

	links   []link // 0 is "none"
	linkIdx map[link]uint32
	freeLn  []uint32
	limitLn int
}

func (b *tables) init() {
	b.styles = append(b.styles[:0], Style{})
	b.liveSt = 1
	b.styleIdx = make([]uint32, 64)
	b.links = append(b.links[:0], link{})
	b.limitSt, b.limitCl, b.limitLn = 512, 256, 256
	b.putStyle(Style{}, 0)
}

func hashStyle(s Style) uint32 {
	h := uint64(s.FG)*0x9E3779B97F4A7C15 ^ uint64(s.BG)*0xC2B2AE3D27D4EB4F
	h ^= (uint64(s.UnderlineColor)<<20 ^ uint64(s.link)<<11 ^ uint64(s.Attrs)<<3 ^ uint64(s.Underline)) * 0x165667B19E3779F9
	return uint32(h >> 32)
}

// style returns the id of s, a new one if it has none yet.
func (b *tables) style(s Style) uint32 {
	mask := uint32(len(b.styleIdx) - 1)
	for i := hashStyle(s) & mask; ; i = (i + 1) & mask {
		e := b.styleIdx[i]
		if e == 0 {
			break
		}
		if b.styles[e-1] == s {
			return e - 1
		}
	}
	return b.addStyle(s)
}

func (b *tables) addStyle(s Style) uint32 {
	var id uint32
	if n := len(b.freeSt); n > 0 {
		id = b.freeSt[n-1]
		b.freeSt = b.freeSt[:n-1]
		b.styles[id] = s
	} else {
		id = uint32(len(b.styles))
		b.styles = append(b.styles, s)
	}
	b.liveSt++
	if b.liveSt*2 > len(b.styleIdx) {
		b.rehash(len(b.styleIdx)*2, nil)
		return id // rehash has put it
	}
	b.putStyle(s, id)
	return id
}

func (b *tables) putStyle(s Style, id uint32) {
	mask := uint32(len(b.styleIdx) - 1)
	i := hashStyle(s) & mask
	for b.styleIdx[i] != 0 {
		i = (i + 1) & mask
	}
	b.styleIdx[i] = id + 1
}

// rehash rebuilds the style index with n slots. With a live set only those ids
// are kept, otherwise all that are not on the free list.
func (b *tables) rehash(n int, live []bool) {
	if live == nil {
		live = make([]bool, len(b.styles))
		for i := range live {
			live[i] = true
		}
		for _, id := range b.freeSt {
			live[id] = false
		}
	}
	b.styleIdx = make([]uint32, n)
	for id, ok := range live {
		if ok {
			b.putStyle(b.styles[id], uint32(id))
		}
	}
}

// cluster returns the id of the grapheme cluster p (copied when it is new).
func (b *tables) cluster(p []byte) uint32 {
	if id, ok := b.clusterIdx[string(p)]; ok {
		return id
	}
	if b.clusterIdx == nil {
		b.clusterIdx = make(map[string]uint32)
	}
	s := string(p)
	var id uint32
	if n := len(b.freeCl); n > 0 {
		id = b.freeCl[n-1]
		b.freeCl = b.freeCl[:n-1]
		b.clusters[id] = s
	} else {
		id = uint32(len(b.clusters))
		b.clusters = append(b.clusters, s)
	}
	b.clusterIdx[s] = id
	return id
}

// linkID returns the id of the link l, 0 when the table is full.
func (b *tables) linkID(l link) uint32 {
	if id, ok := b.linkIdx[l]; ok {
		return id
	}
	if b.linkIdx == nil {
		b.linkIdx = make(map[link]uint32)
	}
	if n := len(b.freeLn); n > 0 {
		id := b.freeLn[n-1]
		b.freeLn = b.freeLn[:n-1]
		b.links[id] = l
		b.linkIdx[l] = id
		return id
	}
	if len(b.links) >= maxLinks {
		return 0
	}
	id := uint32(len(b.links))
	b.links = append(b.links, l)
	b.linkIdx[l] = id
	return id
}

// full reports whether a table has grown to where a collection pays.
func (b *tables) full() bool {
	return b.liveSt >= b.limitSt || len(b.clusterIdx) >= b.limitCl || len(b.linkIdx) >= b.limitLn
}

// marks is the live set of a collection.
type marks struct{ styles, clusters, links []bool }

func (b *tables) newMarks() *marks {
	m := &marks{make([]bool, len(b.styles)), make([]bool, len(b.clusters)), make([]bool, len(b.links))}
	m.styles[0] = true
	m.links[0] = true
	return m
}

func (m *marks) cells(cs []cell) {
	for _, c := range cs {
		m.styles[c.st] = true
		if c.ch&chCluster != 0 {
			m.clusters[c.ch&chMask] = true
		}
	}
}

// sweep frees what is not marked. floor is the least number of entries worth
// another collection, so that big screens are not scanned for every few styles.
func (b *tables) sweep(m *marks, floor int) {
	b.sweepStyles(m, floor)
	b.sweepClusters(m, floor)
	b.sweepLinks(m)
}

func (b *tables) sweepStyles(m *marks, floor int) {
	b.freeSt = b.freeSt[:0]
	b.liveSt = 0
	for id := range m.styles {
		if m.styles[id] {
			b.liveSt++
			m.links[b.styles[id].link] = true
			continue
		}
		b.freeSt = append(b.freeSt, uint32(id))
	}
	b.limitSt = max(512, floor, b.liveSt*2)
	n := 64
	for n < b.liveSt*4 {
		n *= 2
	}
	b.rehash(n, m.styles)
}

func (b *tables) sweepClusters(m *marks, floor int) {
	b.freeCl = b.freeCl[:0]
	for id := range m.clusters {
		if !m.clusters[id] {
			b.freeCl = append(b.freeCl, uint32(id))
			// A freed slot may hold a text that a live id never shares: ids are unique per text.
			if b.clusters[id] != "" {
				delete(b.clusterIdx, b.clusters[id])
				b.clusters[id] = ""
			}
		}
	}
	b.limitCl = max(256, floor, len(b.clusterIdx)*2)
}

func (b *tables) sweepLinks(m *marks) {
	b.freeLn = b.freeLn[:0]
	for id := range m.links {
		if !m.links[id] {
			b.freeLn = append(b.freeLn, uint32(id))
			if b.links[id] != (link{}) {
				delete(b.linkIdx, b.links[id])
				b.links[id] = link{}
			}
		}
	}
	b.limitLn = max(256, len(b.linkIdx)*2)
}

// appendText appends the text of c: nothing for the right half of a wide cell,
// a space for a blank.
func (b *tables) appendText(dst []byte, c cell) []byte {
	switch {
	case c.isTail():
		return dst
	case c.ch&chCluster != 0:
		return append(dst, b.clusters[c.ch&chMask]...)
	case c.ch&chMask == 0:
		return append(dst, ' ')
	case c.ch&chMask < utf8.RuneSelf:
		return append(dst, byte(c.ch))
	}
	return utf8.AppendRune(dst, rune(c.ch&chMask))
}
