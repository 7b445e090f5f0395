// Package theory explains the mathematics of state-space models in pictures: convolutions, bases, HiPPO's memory,
// sampling, the Kalman filter, the parts of H3, and scans. Everything that a page shows is computed by package ssm,
// which has the formulas by definition.
//
// [Views] lists the explanations. Each has options with defaults, and a function that turns them into a page.
package theory
