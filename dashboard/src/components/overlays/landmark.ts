// Where a popup of an element belongs: in the landmark that holds the element, so that a screen reader finds it there
// and not after the end of the page.

export const landmarkOf = (element: Element | null): HTMLElement | undefined =>
  element?.closest<HTMLElement>('main, [role=dialog]') ??
  element?.closest<HTMLElement>('header') ??
  undefined
