RX1370 `@main` takes or gives a function, which has no form in TVMScript
