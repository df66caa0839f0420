// Package controllers lists the controllers of the controller manager.
//
// [Registry] has all of them, for the command. A program that embeds the manager imports the packages of those that
// it wants, or picks them by name with [Named].
package controllers
