module tour

go 1.21
