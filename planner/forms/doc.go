// Package forms lists the forms that a training step may take, and chooses among their plans.
//
// A form is the step with choices made that change its graph. Rows is the table of choices. There
// are two kinds:
//
//   - Compute in pieces: the loss some rows at a time, attention some queries at a time. The
//     library has an operator for it (graph.Op.Pieces) that replaces others in the forward
//     graph, so each combination of pieces is a graph with a backward pass of its own. Steps
//     lists the combinations as data. The reader of the model fills the list with functions;
//     a graph is derived once, when it is first needed, and planning derives nothing else.
//   - Store less of a value: exact extracts of what backward reads, or rounded values on
//     request. Package shrink finds the candidates in a step and rewrites it.
//
// A row that leaves every bit as in the plain step may be taken without being asked for, if its
// setting is auto and a budget binds or extra compute is limited. Costs, and budgets given as
// shares, are relative to the plain step.
//
// Plan searches as follows. A lower bound of the cost of any plan of a form is known before the
// form is planned (planner.Search), and a weaker one before its step is derived (planner.Apart).
// Forms are planned in the order of these bounds; each has to beat the best plan so far, and a form
// whose bound cannot is not derived. Within a form the planner tries whole values, then all
// extracts, then, if rounding was requested, the fewest rounded values that do as well as more
// would. Of equal plans the one with fewer choices wins, so that the answer does not depend on the
// order of the search.
//
// Plan.Form records the choices, so a plan does not need this package once it is made. Nothing here
// changes the graphs in Steps.
package forms
