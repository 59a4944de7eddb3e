package tty

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Sane puts the line settings of a terminal back to what a shell expects, as
// "stty sane" does, whatever a killed program left: line editing, echo,
// signals, and CR and LF turned into each other. The special characters stay.
func Sane(f *os.File) error {
	fd, err := terminalFD(f)
	if err != nil {
		return err
	}
	t, err := unix.IoctlGetTermios(fd, ioctlGetTermios)
	if err != nil {
		return fmt.Errorf("read the terminal's settings: %w", err)
	}
	t.Iflag |= unix.BRKINT | unix.ICRNL | unix.IXON | unix.IMAXBEL
	t.Iflag &^= unix.IGNBRK | unix.INLCR | unix.IGNCR | unix.ISTRIP
	t.Oflag |= unix.OPOST | unix.ONLCR
	t.Lflag |= unix.ISIG | unix.ICANON | unix.IEXTEN | unix.ECHO | unix.ECHOE | unix.ECHOK
	t.Lflag &^= unix.ECHONL | unix.NOFLSH | unix.TOSTOP
	if err := unix.IoctlSetTermios(fd, ioctlSetTermios, t); err != nil {
		return fmt.Errorf("repair the terminal's settings: %w", err)
	}
	return nil
}
