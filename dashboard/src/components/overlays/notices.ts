// The newest notice and its number; the list on the screen keeps the earlier ones.
import { createStore } from '../../stores.ts'

export const said = createStore<{ text: string; n: number }>({ text: '', n: 0 })
