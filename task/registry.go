package task

// all lists the tasks in the order of tables, one per line.
var all = []*Task{
	InductionHead,
	Recall,
	RecallLarge,
	MQAR,
	SelectiveCopying,
	Text,
	Retrieval,
	Image,
	Pathfinder,
	PathX,
	ListOps,
	Author,
	SameAuthor,
	SMNIST,
	PSMNIST,
	Frequency,
	Digits,
	ECG,
	DNA,
	Speech,
	ETTh1,
	ETTh2,
}

// All returns the tasks in the order of tables.
func All() []*Task { return all }
