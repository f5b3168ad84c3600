autocmd BufNewFile,BufRead *.relay setfiletype relay
