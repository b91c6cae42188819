// Send events to the chat machine of the configuration, with stubs for its guards and actions.
//
// Each of `walks` begins in a state and has steps: an event, and the values of the guards that it may ask. Of each step
// the state after it is returned, the actions, and whether the machine takes the event at all.
import { createActor, createMachine } from "xstate";
import { input, print } from "./support.mjs";

let step, actions;

function guard(name) {
  return ({ event }) => {
    if (!(name in step.guards) || (event.type !== step.event.type && !(name in input.always))) {
      throw new Error(`${name} is asked at ${event.type}, and not to be`);
    }
    return step.guards[name];
  };
}

const machine = createMachine(input.config).provide({
  guards: Object.fromEntries(input.guards.map((name) => [name, guard(name)])),
  actions: Object.fromEntries(input.actions.map((name) => [name, () => actions.push(name)])),
});

for (const walk of input.walks) {
  step = { event: {}, guards: input.always };
  const snapshot = machine.resolveState({ value: walk.state, context: machine.config.context });
  const actor = createActor(machine, { snapshot }).start();
  const reached = [];
  for (step of walk.steps) {
    actions = [];
    const taken = actor.getSnapshot().can(step.event);
    actor.send(step.event);
    reached.push({ state: actor.getSnapshot().value, actions, taken });
  }
  print(reached);
}
