// Whether forms ask before typed values are lost: on pages inside the frame, but not in dialogs, which have "Cancel".
import { createContext } from 'react'

export const GuardsForms = createContext(false)
