package main

import (
	"net"
	"syscall"
)

// listenConfig opens listeners whose connections are asked for signs of life: every 15 seconds, and given up after nine in
// vain. It is the socket that listens which is told: connections have it from there, where package net would tell each one
// with four calls.
var listenConfig = net.ListenConfig{KeepAlive: -1, Control: func(_, _ string, raw syscall.RawConn) error {
	var err error
	controlled := raw.Control(func(fd uintptr) {
		for _, one := range [][3]int{
			{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
			{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 15},
			{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 15},
			{syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 9},
		} {
			if err == nil {
				err = syscall.SetsockoptInt(int(fd), one[0], one[1], one[2])
			}
		}
	})
	if controlled != nil {
		return controlled
	}
	return err
}}
