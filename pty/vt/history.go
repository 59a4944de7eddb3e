package vt

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// history keeps the rows that left the top of the main screen, oldest first,
// as self-contained records (about a byte a column) in append-only chunks. A
// record is never rewritten: rows are wrapped to the present width when read.
//
//	record: uvarint length of what follows, flags, uvarint columns,
//	        uvarint length of text, text, runs
//	text:   per cell its UTF-8, or 0 blank, 1 filler, 2 length cluster;
//	        a wide cell has 3 in front and no tail
//	runs:   uvarint columns, style (appendStyle); absent when all is default
type history struct {
	maxLines, maxBytes int

	chunks [][]byte // chunks[0] belongs to sequence number first
	first  int
	refs   []ref // ring
	head   int
	n      int
	bytes  int
	rec    []byte // scratch: a record
	text   []byte // and its text
}

type ref struct {
	chunk int32 // sequence number; 2^31 chunks are more than 8 TB
	off   int32
}

const (
	minChunk = 4 << 10
	maxChunk = 64 << 10
)

const (
	textBlank byte = iota
	textFiller
	textCluster
	textWide
)

func (h *history) enabled() bool { return h.maxLines > 0 && h.maxBytes > 0 }

// push appends a row.
func (h *history) push(b *tables, row []cell, wrapped bool) {
	if !h.enabled() {
		return
	}
	rec := h.encode(b, row, wrapped)
	var l [binary.MaxVarintLen64]byte
	ln := binary.PutUvarint(l[:], uint64(len(rec)))
	need := ln + len(rec)
	h.room(need)
	last := len(h.chunks) - 1
	h.addRef(ref{int32(h.first + last), int32(len(h.chunks[last]))})
	h.chunks[last] = append(append(h.chunks[last], l[:ln]...), rec...)
	h.bytes += need
	for h.n > h.maxLines || h.bytes > h.maxBytes && h.n > 1 {
		h.dropFirst()
	}
}

// room makes the last chunk able to take n more bytes.
func (h *history) room(n int) {
	k := len(h.chunks)
	if k > 0 && cap(h.chunks[k-1])-len(h.chunks[k-1]) >= n {
		return
	}
	size := minChunk
	if k > 0 {
		size = min(maxChunk, cap(h.chunks[k-1])*2)
	}
	h.chunks = append(h.chunks, make([]byte, 0, max(size, n)))
}

func (h *history) addRef(r ref) {
	if h.n == len(h.refs) {
		grown := make([]ref, max(64, 2*len(h.refs)))
		for i := range h.n {
			grown[i] = h.refs[(h.head+i)%len(h.refs)]
		}
		h.refs, h.head = grown, 0
	}
	h.refs[(h.head+h.n)%len(h.refs)] = r
	h.n++
}

func (h *history) ref(i int) ref { return h.refs[(h.head+i)%len(h.refs)] }

// record returns row i (0: oldest) and its size in the chunk.
func (h *history) record(i int) (rec []byte, size int) {
	r := h.ref(i)
	p := h.chunks[int(r.chunk)-h.first][r.off:]
	n, k := binary.Uvarint(p)
	return p[k : k+int(n)], k + int(n)
}

func (h *history) dropFirst() {
	_, size := h.record(0)
	h.bytes -= size
	h.head = (h.head + 1) % len(h.refs)
	h.n--
	keep := h.first + len(h.chunks) - 1
	if h.n > 0 {
		keep = int(h.ref(0).chunk)
	}
	for h.first < keep {
		h.chunks[0] = nil
		h.chunks = h.chunks[1:]
		h.first++
	}
}

// dropLast takes the newest row away.
func (h *history) dropLast() {
	r := h.ref(h.n - 1)
	_, size := h.record(h.n - 1)
	h.bytes -= size
	h.n--
	c := int(r.chunk) - h.first
	h.chunks[c] = h.chunks[c][:r.off:r.off] // a clone may still read what follows
	if c > 0 && r.off == 0 {
		h.chunks[c] = nil
		h.chunks = h.chunks[:c]
	}
}

func (h *history) clear() {
	*h = history{maxLines: h.maxLines, maxBytes: h.maxBytes}
}

func (h *history) lastWrapped() bool {
	if h.n == 0 {
		return false
	}
	rec, _ := h.record(h.n - 1)
	return rec[0]&rowWrapped != 0
}

// encode builds a record in the scratch buffer.
func (h *history) encode(b *tables, row []cell, wrapped bool) []byte {
	p := h.rec[:0]
	flags := byte(0)
	if wrapped {
		flags = rowWrapped
	}
	p = append(p, flags)
	p = binary.AppendUvarint(p, uint64(len(row)))
	if plain, ok := appendPlain(p, row); ok {
		h.rec = plain
		return plain
	}
	p = h.encodeText(b, p, row)
	p = encodeRuns(b, p, row)
	h.rec = p
	return p
}

// appendPlain appends the text of a row of ASCII in the default style; ok is
// false, and what is beyond p undefined, when it is not one.
func appendPlain(p []byte, row []cell) (out []byte, ok bool) {
	if len(row) > 0 && row[0].st != 0 {
		return p, false
	}
	p = binary.AppendUvarint(p, uint64(len(row)))
	start := len(p)
	p = slices.Grow(p, len(row))[:start+len(row)]
	text := p[start:]
	styles, low := uint32(0), uint32(' ')
	high := uint32(0)
	for i, c := range row[:len(text)] {
		text[i] = byte(c.ch)
		styles |= c.st
		high |= c.ch
		low = min(low, c.ch)
	}
	return p, styles == 0 && high < utf8.RuneSelf && low == ' '
}

func (h *history) encodeText(b *tables, p []byte, row []cell) []byte {
	text := h.text[:0]
	for _, c := range row {
		text = b.appendCellText(text, c)
	}
	h.text = text
	p = binary.AppendUvarint(p, uint64(len(text)))
	return append(p, text...)
}

func (b *tables) appendCellText(p []byte, c cell) []byte {
	switch c.kind() {
	case kindTail:
		return p
	case kindFiller:
		return append(p, textFiller)
	case kindWide:
		p = append(p, textWide)
	}
	switch {
	case c.ch&chCluster != 0:
		s := b.clusters[c.ch&chMask]
		return append(append(p, textCluster, byte(len(s))), s...)
	case c.ch&chMask == 0:
		return append(p, textBlank)
	}
	return utf8.AppendRune(p, rune(c.ch&chMask))
}

func encodeRuns(b *tables, p []byte, row []cell) []byte {
	styled := false
	for _, c := range row {
		styled = styled || c.st != 0
	}
	if !styled {
		return p
	}
	for i := 0; i < len(row); {
		j := i + 1
		for j < len(row) && row[j].st == row[i].st {
			j++
		}
		p = binary.AppendUvarint(p, uint64(j-i))
		p = b.appendStyle(p, b.styles[row[i].st])
		i = j
	}
	return p
}

// Bits of the mask byte in an encoded style; they tell which fields follow.
const (
	hasFG = 1 << iota
	hasBG
	hasUnderlineColor
	hasAttrs
	hasLink
)

func (b *tables) appendStyle(p []byte, s Style) []byte {
	mask := len(p)
	p = append(p, 0)
	field := func(bit byte, v uint64) {
		if v == 0 {
			return
		}
		p[mask] |= bit
		p = binary.AppendUvarint(p, v)
	}
	field(hasFG, packColor(s.FG))
	field(hasBG, packColor(s.BG))
	field(hasUnderlineColor, packColor(s.UnderlineColor))
	field(hasAttrs, uint64(s.Attrs)<<3|uint64(s.Underline))
	if s.link != 0 {
		p[mask] |= hasLink
		l := b.links[s.link]
		p = appendString(appendString(p, l.id), l.uri)
	}
	return p
}

func packColor(c Color) uint64 {
	if i, ok := c.Palette(); ok {
		return uint64(i) + 1
	}
	if c == 0 {
		return 0
	}
	return uint64(c&0xffffff) + 257
}

func unpackColor(v uint64) Color {
	switch {
	case v == 0:
		return 0
	case v <= 256:
		return Palette(uint8(v - 1))
	}
	return colorRGB | Color(v-257)
}

func appendString(p []byte, s string) []byte {
	return append(binary.AppendUvarint(p, uint64(len(s))), s...)
}

// reader decodes a record that this package has written.
type reader struct{ p []byte }

func (r *reader) uvarint() int {
	v, n := binary.Uvarint(r.p)
	r.p = r.p[n:]
	return int(v)
}

func (r *reader) bytes(n int) []byte {
	v := r.p[:n]
	r.p = r.p[n:]
	return v
}

func (r *reader) style(b *tables) Style {
	mask := r.bytes(1)[0]
	field := func(bit byte) uint64 {
		if mask&bit == 0 {
			return 0
		}
		return uint64(r.uvarint())
	}
	var s Style
	s.FG = unpackColor(field(hasFG))
	s.BG = unpackColor(field(hasBG))
	s.UnderlineColor = unpackColor(field(hasUnderlineColor))
	a := field(hasAttrs)
	s.Attrs, s.Underline = Attr(a>>3), Underline(a&7)
	if mask&hasLink != 0 {
		l := link{id: string(r.bytes(r.uvarint())), uri: string(r.bytes(r.uvarint()))}
		s.link = b.linkID(l)
	}
	return s
}

// decode appends the cells of record rec to dst, interned in b.
func decode(b *tables, rec []byte, dst []cell) (cells []cell, wrapped bool) {
	wrapped = rec[0]&rowWrapped != 0
	r := reader{rec[1:]}
	n := r.uvarint()
	text := reader{r.bytes(r.uvarint())}
	start := len(dst)
	for len(dst)-start < n {
		dst = text.cell(b, dst)
	}
	for i := start; len(r.p) > 0; {
		k := r.uvarint()
		id := b.style(r.style(b))
		for j := range k {
			dst[i+j].st = id
		}
		i += k
	}
	return dst, wrapped
}

func (r *reader) cell(b *tables, dst []cell) []cell {
	kind := uint32(0)
	if r.p[0] == textWide {
		kind = kindWide
		r.p = r.p[1:]
	}
	switch r.p[0] {
	case textBlank:
		r.p = r.p[1:]
		return append(dst, cell{})
	case textFiller:
		r.p = r.p[1:]
		return append(dst, cell{ch: kindFiller})
	case textCluster:
		n := int(r.p[1])
		r.p = r.p[2:]
		dst = append(dst, cell{ch: b.cluster(r.bytes(n)) | chCluster | kind})
	default:
		v, n := utf8.DecodeRune(r.p)
		r.p = r.p[n:]
		dst = append(dst, cell{ch: uint32(v) | kind})
	}
	if kind == kindWide {
		dst = append(dst, cell{ch: kindTail})
	}
	return dst
}
