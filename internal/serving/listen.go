package serving

import (
	"context"
	"net"
	"strconv"
)

// listen takes the port. That it is in use is an error that names it.
func listen(ctx context.Context, c Config) (net.Listener, error) {
	config := net.ListenConfig{}
	if c.ShareAddress || c.SharePort {
		config.Control = share(c.ShareAddress, c.SharePort)
	}
	address := ""
	if c.Address != nil {
		address = c.Address.String()
	}
	return config.Listen(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(c.Port)))
}
