// Package forms has the forms that a training step may take, and chooses among
// their plans.
//
// A form is the step with a choice made that changes its graph. Rows is the table of
// choices. There are two kinds:
//
//   - Something is computed in pieces: the loss some rows at a time, attention some
//     queries at a time. An operator of the library does it (graph.Op.Pieces), which
//     stands for others in the forward graph, so each combination of pieces is a graph
//     with a backward pass of its own. Steps lists the combinations as data. Whoever
//     reads the model fills the list; a graph is derived when it is first asked for,
//     once, and planning asks for nothing else.
//   - Values are kept in less: exact extracts of what backward reads, or rounded ones on
//     request. Package shrink finds the candidates in a step and rewrites it.
//
// A row whose bits are those of the plain step may be taken unasked, where its setting is
// auto and a budget binds or a limit of extra compute is given. All costs, and budgets
// that are shares, are told beside the plain step.
//
// How the best plan is found (Plan): the least that any plan of a form costs is known
// before it is planned (planner.Prospect), and roughly before its step is derived
// (planner.Apart). So the forms are planned by rising promise, each has to be worth more
// than the best plan so far, and what cannot be is not derived. Within a form the exact
// values are tried, then all extracts, then, if rounding was asked for, as few rounded
// values as do as well as more would. Of equals the form with fewer choices stays, so that
// the answer does not depend on the order of the search.
//
// What was chosen is told in Plan.Form, so a plan needs nothing of the package once it is
// made, and nothing that is asked changes Steps.
package forms
