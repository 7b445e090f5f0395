// Package theory explains the mathematics of state-space models with pictures: convolutions, bases, HiPPO's memory,
// sampling, the Kalman filter, the parts of H3, and scans. Package ssm, which has the formulas by definition, computes
// everything that a page shows.
//
// [Views] lists the explanations. Each has options with defaults, and a function that makes a page from them.
package theory
