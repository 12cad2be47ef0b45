// Ages of things that the page knows. A computer that sleeps may stop one of the two clocks of the browser: the larger age counts.

/** @typedef {{steady: number, wall: number}} Mark a moment */

/** This moment. @returns {Mark} */
export const mark = () => ({ steady: performance.now(), wall: Date.now() });

/** The time since a moment (ms). @param {Mark} moment */
export const age = ({ steady, wall }) => Math.max(performance.now() - steady, Date.now() - wall);
