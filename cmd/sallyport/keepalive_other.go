//go:build !linux

package main

import "net"

// listenConfig opens listeners as package net does.
var listenConfig net.ListenConfig
